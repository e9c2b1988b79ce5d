"""Why a pattern did not match: the attempts that failed, and the rule that each one broke."""
