package detector

// AmplificationConfig sets up retry_amplification.
type AmplificationConfig struct {
	// MinOperations is how many operations must know their attempts.
	MinOperations uint64 `yaml:"min_operations"`
	// Limit is how many attempts per operation, over all layers, are too many whatever
	// is usual; it is all that counts until there is a baseline.
	Limit float64 `yaml:"limit"`
	// Budget is how many extra attempts per operation are never too many.
	Budget float64 `yaml:"budget"`
	// MinExtra is the least baseline of extra attempts per operation.
	MinExtra float64 `yaml:"min_extra"`
	// FireRise is by which factor the extra attempts per operation must have risen.
	FireRise float64 `yaml:"fire_rise"`
	// ClearRise is the factor below which it is quiet again.
	ClearRise float64 `yaml:"clear_rise"`
	// MissShare of calls over deadline, beyond twice the baseline, is critical.
	MissShare float64 `yaml:"miss_share"`
}

// DeadConfig sets up first_timeout and retry_exhaustion.
type DeadConfig struct {
	// MinOperations is how many operations must know their attempts.
	MinOperations uint64 `yaml:"min_operations"`
	// Limit is the share that fires until there is a baseline.
	Limit float64 `yaml:"limit"`
	// MinShare is the least baseline.
	MinShare float64 `yaml:"min_share"`
	// FireRise is by which factor the share must have risen.
	FireRise float64 `yaml:"fire_rise"`
	// ClearRise is the factor below which it is quiet again.
	ClearRise float64 `yaml:"clear_rise"`
	// MissShare of calls over deadline, beyond twice the baseline, is critical.
	MissShare float64 `yaml:"miss_share"`
}

// PileUpConfig sets up cap_pileup.
type PileUpConfig struct {
	// MinOperations is how many operations a window needs.
	MinOperations uint64 `yaml:"min_operations"`
	// MinPile is how many of them must have ended at one value.
	MinPile uint64 `yaml:"min_pile"`
	// PileP is the largest chance of such a pile in a smooth tail.
	PileP float64 `yaml:"pile_p"`
	// Limit is the share cut at one value that fires until there is a baseline.
	Limit float64 `yaml:"limit"`
	// MinShare is the least baseline.
	MinShare float64 `yaml:"min_share"`
	// FireRise is by which factor the share cut must have risen.
	FireRise float64 `yaml:"fire_rise"`
	// ClearRise is the factor below which it is quiet again.
	ClearRise float64 `yaml:"clear_rise"`
	// MissShare of calls over deadline, beyond twice the baseline, is critical.
	MissShare float64 `yaml:"miss_share"`
}

// attemptDefaults fills in the rules over attempts. The limit of three attempts and a budget
// of extra ones are those of "Handling Overload" in Google's SRE book, which allows a
// client 10 %; Envoy's retry budget allows 20 % unless set otherwise.
func attemptDefaults(r *Rules) {
	r.Amplification = AmplificationConfig{MinOperations: 50, Limit: 3, Budget: 0.2, MinExtra: 0.05, FireRise: 2, ClearRise: 1.3, MissShare: 0.02}
	r.FirstTimeout = DeadConfig{MinOperations: 100, Limit: 0.2, MinShare: 0.01, FireRise: 3, ClearRise: 1.5, MissShare: 0.02}
	r.Exhaustion = DeadConfig{MinOperations: 100, Limit: 0.2, MinShare: 0.01, FireRise: 3, ClearRise: 1.5, MissShare: 0.02}
	r.PileUp = PileUpConfig{MinOperations: 10, MinPile: 5, PileP: 0.01, Limit: 0.05, MinShare: 0.01, FireRise: 3, ClearRise: 1.5, MissShare: 0.02}
}

// attemptProblems checks them, as problems does the others.
func (r *Rules) attemptProblems(check func(ok bool, format string, args ...any)) {
	common := func(section string, least uint64, rise, clear, miss float64) {
		check(least >= 1, "%s.min_operations %d: want 1 or more", section, least)
		check(rise > clear && clear >= 1, "%s.fire_rise %v, %s.clear_rise %v: want the first above the second, and that 1 or more", section, rise, section, clear)
		check(miss >= 0 && miss <= 1, "%s.miss_share %v: want a share between 0 and 1", section, miss)
	}
	a := &r.Amplification
	common("retry_amplification", a.MinOperations, a.FireRise, a.ClearRise, a.MissShare)
	check(a.Limit > 1, "retry_amplification.limit %v: want more than 1 attempt per operation", a.Limit)
	check(a.Budget >= 0 && a.Budget < a.Limit-1 || a.Limit <= 1, "retry_amplification.budget %v: want 0 or more, and below what limit %v allows", a.Budget, a.Limit)
	check(a.MinExtra > 0, "retry_amplification.min_extra %v: want more than 0", a.MinExtra)
	for _, d := range []struct {
		name string
		c    *DeadConfig
	}{{FirstTimeout, &r.FirstTimeout}, {RetryExhaustion, &r.Exhaustion}} {
		common(d.name, d.c.MinOperations, d.c.FireRise, d.c.ClearRise, d.c.MissShare)
		check(d.c.Limit > 0 && d.c.Limit <= 1, "%s.limit %v: want a share above 0 and not above 1", d.name, d.c.Limit)
		check(d.c.MinShare > 0 && d.c.MinShare < 1, "%s.min_share %v: want a share between 0 and 1", d.name, d.c.MinShare)
	}
	p := &r.PileUp
	common("cap_pileup", p.MinOperations, p.FireRise, p.ClearRise, p.MissShare)
	check(p.MinPile >= 2, "cap_pileup.min_pile %d: want 2 or more", p.MinPile)
	check(p.PileP > 0 && p.PileP < 1, "cap_pileup.pile_p %v: want between 0 and 1", p.PileP)
	check(p.Limit > 0 && p.Limit <= 1, "cap_pileup.limit %v: want a share above 0 and not above 1", p.Limit)
	check(p.MinShare > 0 && p.MinShare < 1, "cap_pileup.min_share %v: want a share between 0 and 1", p.MinShare)
}
