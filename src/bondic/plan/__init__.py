"""What is proposed before the certified rows: models q̂ and groups. Untrusted: a bad proposal costs length, never validity."""
