"""The request of a check: model, data, engines and limits as frozen values; standard library only."""

from pytest_quant.spec.check import PRECISIONS as PRECISIONS
from pytest_quant.spec.check import QUANTIZED_PRECISIONS as QUANTIZED_PRECISIONS
from pytest_quant.spec.check import REFERENCE_PRECISIONS as REFERENCE_PRECISIONS
from pytest_quant.spec.check import SCHEMES as SCHEMES
from pytest_quant.spec.check import UNKNOWN as UNKNOWN
from pytest_quant.spec.check import UNMEASURED as UNMEASURED
from pytest_quant.spec.check import Calibration as Calibration
from pytest_quant.spec.check import Check as Check
from pytest_quant.spec.check import Dataset as Dataset
from pytest_quant.spec.check import EngineSpec as EngineSpec
from pytest_quant.spec.check import LatencyPlan as LatencyPlan
from pytest_quant.spec.check import Pages as Pages
from pytest_quant.spec.check import Spread as Spread
from pytest_quant.spec.limits import LIMITS as LIMITS
from pytest_quant.spec.limits import OWN_SCORES as OWN_SCORES
from pytest_quant.spec.limits import Limit as Limit
from pytest_quant.spec.limits import Limits as Limits
from pytest_quant.spec.limits import OutputLimit as OutputLimit
from pytest_quant.spec.limits import limits_on as limits_on
from pytest_quant.spec.model import ChannelGroup as ChannelGroup
from pytest_quant.spec.model import InputShapes as InputShapes
from pytest_quant.spec.model import Model as Model
from pytest_quant.spec.model import Shape as Shape
from pytest_quant.spec.model import Signature as Signature
from pytest_quant.spec.model import TensorInfo as TensorInfo
from pytest_quant.spec.scores import Scores as Scores
