"""Center, finite features, allowance: the bound for any features (theory: features). A study; no method uses it."""
