"""A cloud's region raises every price by one factor, or leaves them unknown."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext

from smartclient import catalog
from smartclient.catalog import Mode, Prices, Tier
from smartclient.catalog.regions import in_region

PRICES = Prices(
    input=Decimal(1),
    output=Decimal(2),
    cache_write={"5m": Decimal(3)},
    tiers=(Tier(above=10, input=Decimal(4), output=Decimal(5)),),
    batch=Mode(multiplier=Decimal("0.5"), input=Decimal(6), tiers=(Tier(above=9),)),
    service_tiers={"flex": Mode(multiplier=Decimal("0.5"))},
    speeds={"fast": Mode(input=Decimal(7), output=Decimal(8))},
    geos={"us": Decimal(9)},
    regions={"bedrock:us": Decimal(10)},
)


def test_every_price_rises_and_no_multiplier_does():
    assert in_region(PRICES, "bedrock:us") == Prices(
        input=Decimal(10),
        output=Decimal(20),
        cache_write={"5m": Decimal(30)},
        tiers=(Tier(above=10, input=Decimal(40), output=Decimal(50)),),
        batch=Mode(multiplier=Decimal("0.5"), input=Decimal(60), tiers=(Tier(above=9),)),
        service_tiers={"flex": Mode(multiplier=Decimal("0.5"))},
        speeds={"fast": Mode(input=Decimal(70), output=Decimal(80))},
        geos={"us": Decimal(9)},
    )


def test_the_callers_precision_is_not_ours():
    prices = Prices(input=Decimal("3.75"), output=Decimal(1), regions={"x": Decimal("1.1")})

    with localcontext(Context(prec=2)):
        raised = in_region(prices, "x")

    assert raised.input == Decimal("4.125")


def test_a_region_without_a_factor_has_no_known_prices():
    assert in_region(PRICES, "bedrock:eu") is None
    assert in_region(None, "bedrock:us") is None


def test_the_rest_of_the_facts_is_the_same_in_each_region():
    there, here = catalog.model("us.anthropic.claude-opus-5"), catalog.model("claude-opus-5")

    assert (there.name, there.context_window) == (here.name, here.context_window)
    assert there.prices.tiers == here.prices.tiers == ()
