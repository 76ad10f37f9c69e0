"""Any policy, insured against an adversary."""
