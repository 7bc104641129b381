"""What a page trains once, trained from several seeds: one module per page, whose
`rows(quick)` yields the figures that the page shows as a stored report."""
