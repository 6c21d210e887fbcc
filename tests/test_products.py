"""Products by oneDNN: the same numbers, shapes and derivatives as torch's."""

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.func import jvp as func_jvp
from torch.func import vmap

from niso.linalg import products
from niso.linalg.products import LEAST, product
from niso.networks.linear import Linear

# PyTorch loads its forward mode by its own deprecated torch.jit.script
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is:DeprecationWarning")

LARGE = round(LEAST ** (1 / 3)) + 2
SHAPES = [
    ((LARGE, LARGE), (LARGE, LARGE)),
    ((1, LARGE, LARGE + 1), (LARGE + 1, LARGE)),
    ((LARGE, LARGE), (3, LARGE, LARGE + 3)),
    ((2, 1, LARGE, LARGE), (3, LARGE, LARGE)),
]


@pytest.fixture
def by_onednn(monkeypatch):
    """Fails where a product of large matrices does not take oneDNN."""
    if not products.AVAILABLE:
        pytest.skip("torch without oneDNN")
    calls = []
    one = products.by_onednn
    monkeypatch.setattr(products, "by_onednn", lambda x, y: (calls.append(1), one(x, y))[1])
    return calls


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("first", "second"), SHAPES)
def test_products_and_gradients_are_those_of_torch(by_onednn, first, second):
    x, y = torch.randn(first, requires_grad=True), torch.randn(second, requires_grad=True)
    expected = x @ y
    found = product(x, y)
    close(found, expected)
    assert by_onednn
    g = torch.randn_like(expected)
    for a, b in zip(torch.autograd.grad(found, (x, y), g), torch.autograd.grad(expected, (x, y), g), strict=True):
        assert a.shape == b.shape
        close(a, b)


def test_a_batch_may_be_empty():
    assert product(torch.zeros(0, LARGE, LARGE), torch.zeros(LARGE, LARGE)).shape == (0, LARGE, LARGE)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("batch", [(6 * LARGE,), (3, 2, LARGE)])
def test_linear_layers_are_those_of_torch(by_onednn, batch, bias):
    layer = Linear(LARGE, 30, bias)
    plain = nn.Linear(LARGE, 30, bias)
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(*batch, LARGE, requires_grad=True)
    g = torch.randn(*batch, 30)
    found, expected = layer(x), plain(x)
    close(found, expected)
    assert by_onednn
    grads = (torch.autograd.grad(y, (x, *module.parameters()), g) for y, module in ((found, layer), (expected, plain)))
    for a, b in zip(*grads, strict=True):
        close(a, b)


@pytest.mark.parametrize("shape", [(0, LARGE), (LARGE,), (3, LARGE), (2, 0, LARGE)])
def test_small_inputs_of_linear_layers_are_torchs(by_onednn, shape):
    layer, x = Linear(LARGE, 4), torch.randn(shape)
    torch.testing.assert_close(layer(x), nn.functional.linear(x, layer.weight, layer.bias), rtol=0, atol=0)
    with torch.autocast("cpu"):
        assert Linear(LARGE, LARGE)(torch.randn(LARGE, LARGE)).dtype == torch.bfloat16
    assert not by_onednn


def test_a_layer_without_inputs_gives_its_bias():
    layer = Linear.__new__(Linear)
    nn.Module.__init__(layer)
    layer.weight, layer.bias = nn.Parameter(torch.empty(4, 0)), nn.Parameter(torch.arange(4.0))
    torch.testing.assert_close(layer(torch.empty(3, 0)), torch.arange(4.0).expand(3, 4))


def test_second_derivatives_and_forward_mode(by_onednn):
    x, y, dx = (torch.randn(LARGE, LARGE) for _ in range(3))
    x.requires_grad_()

    def penalty(function):
        (grad,) = torch.autograd.grad(function(x, y).square().mean(), x, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), x)[0]

    torch.testing.assert_close(penalty(product), penalty(torch.matmul))
    with forward_ad.dual_level():
        found = product(forward_ad.make_dual(x.detach(), dx), y)
        close(forward_ad.unpack_dual(found).tangent, dx @ y)
        both = product(forward_ad.make_dual(x.detach(), dx), forward_ad.make_dual(y, dx))
        close(forward_ad.unpack_dual(both).tangent, dx @ y + x.detach() @ dx)
    assert by_onednn


def test_transposed_and_strided_matrices(by_onednn):
    x, y = torch.randn(2 * LARGE, 2 * LARGE)[::2, 1::2].T, torch.randn(LARGE, 2, LARGE)[:, 1]
    close(product(x, y), x @ y)
    assert by_onednn


def test_parts_of_larger_matrices_get_no_gaps():
    whole = torch.randn(LARGE, LARGE)
    for y in (whole, whole.mT, whole[:7], whole[:, :7].mT, whole[:7].mT):
        assert (products.dense(y) is y) == (y.is_contiguous() or y.mT.is_contiguous())
    for y in (whole[:, :7], whole[::2], whole[:, ::2], whole[:, :1].expand(-1, 5)):
        found = products.dense(y)
        assert torch.equal(found, y) and (found.is_contiguous() or found.mT.is_contiguous())


def test_thin_products_of_long_sums_are_torchs(by_onednn):
    x, y = torch.randn(32, 8192), torch.randn(8192, 32)
    torch.testing.assert_close(product(x, y), x @ y, rtol=0, atol=0)
    assert not by_onednn


@pytest.mark.parametrize(("n", "dtype"), [(LARGE - 20, torch.float32), (LARGE, torch.float64), (LARGE, torch.bfloat16)])
def test_what_onednn_is_not_asked(by_onednn, n, dtype):
    x, y = torch.randn(n, LARGE, dtype=dtype), torch.randn(LARGE, LARGE, dtype=dtype)
    torch.testing.assert_close(product(x, y), x @ y, rtol=0, atol=0)
    assert not products._is_large(x, y[:, 0])
    assert not by_onednn


def test_transformations_of_functions_take_torchs_product(by_onednn):
    x, y = torch.randn(2, LARGE, LARGE), torch.randn(LARGE, LARGE)
    torch.testing.assert_close(vmap(product, (0, None))(x, y), x @ y)
    torch.testing.assert_close(func_jvp(lambda x: product(x, y), (x[0],), (x[1],))[1], x[1] @ y)
    assert not by_onednn


def test_shapes_that_do_not_fit_are_left_to_torch_to_name():
    assert not products._is_large(torch.ones(LARGE, LARGE), torch.ones(LARGE + 1, LARGE))
    assert not products._is_large(torch.ones(LARGE, LARGE), torch.ones(LARGE, LARGE, dtype=torch.float64))
