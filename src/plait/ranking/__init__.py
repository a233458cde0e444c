"""How scores are computed: pure arithmetic on rankings, without stores, text or clocks."""
