package detector_test

import (
	"context"
	"time"

	"driftline/detector"
	"driftline/detector/memory"
	"driftline/internal/rows"
)

// put stores rows as if each had arrived 3 s after it ended.
func put(s *memory.Store, reqs []*rows.Request, ops []*rows.Operation) {
	s.AddRequests(3*time.Second, reqs...)
	s.AddOperations(ops...)
}

// collect keeps what it is given.
type collect struct {
	name string
	fail error
	got  []detector.Alert
}

func (c *collect) Name() string { return c.name }

func (c *collect) Notify(_ context.Context, alerts []detector.Alert) error {
	if c.fail != nil {
		return c.fail
	}
	c.got = append(c.got, alerts...)
	return nil
}

// news is what was not a repeat.
func (c *collect) news() []detector.Alert {
	var out []detector.Alert
	for _, a := range c.got {
		if !a.Resend {
			out = append(out, a)
		}
	}
	return out
}
