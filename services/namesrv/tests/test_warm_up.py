from ariane_namesrv.warm_up import WarmUp


def test_it_lasts_for_so_long_after_the_begin(clock):
    warm_up = WarmUp(clock, 45)
    clock.advance(1000)
    assert warm_up.lasts()
    warm_up.begin()
    assert warm_up.lasts()
    clock.advance(44)
    assert warm_up.lasts()
    clock.advance(1)
    assert not warm_up.lasts()
