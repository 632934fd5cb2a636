package detector

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // small images have no time zones of their own
)

// Maintenance is a stretch of time, once or each week, in which alerts of some slices are
// kept and not sent, and which stays out of the baseline. Either from and to are set, or
// weekly is.
type Maintenance struct {
	// Match says which slices it is for; without any part it is for all.
	Match `yaml:",inline"`
	// From is the start of a single stretch, such as 2026-03-07T22:00:00Z or, in the time zone of zone, 2026-03-07 22:00.
	From string `yaml:"from"`
	// To is its end, written like from.
	To string `yaml:"to"`
	// Weekly is a stretch of each week instead: days and times of the clock, such as "Sat,Sun 22:00-02:00" or "Mon-Fri 01:00-01:30". One that ends before it starts ends on the next day; 00:00-24:00 is the whole day.
	Weekly string `yaml:"weekly"`
	// Zone is the time zone, such as Europe/Berlin; without it UTC.
	Zone string `yaml:"zone"`
	// Reason is shown with the alerts that are not sent.
	Reason string `yaml:"reason"`
}

// stretch is a Maintenance that has been read.
type stretch struct {
	Match
	reason   string
	zone     *time.Location
	from, to time.Time
	// days, and start and length by the clock of zone, are those of a weekly one.
	days          [7]bool
	weekly        bool
	start, length time.Duration
}

// plan is all maintenance of a configuration.
type plan []stretch

// planned reads the configured maintenance; the error names each mistake with its key.
func (c Config) planned() (plan, error) {
	var out plan
	var errs []error
	for i, m := range c.Maintenance {
		s, err := m.read()
		err = append(err, m.Match.problems("")...)
		for _, e := range err {
			errs = append(errs, fmt.Errorf("maintenance[%d].%w", i, e))
		}
		if len(err) == 0 {
			out = append(out, s)
		}
	}
	return out, errors.Join(errs...)
}

func (m Maintenance) read() (s stretch, errs []error) {
	s.Match, s.reason, s.zone = m.Match, m.Reason, time.UTC
	if m.Zone != "" {
		zone, err := time.LoadLocation(m.Zone)
		if err != nil || m.Zone == "Local" {
			return s, []error{fmt.Errorf("zone %q: want the name of a time zone, such as UTC or Europe/Berlin", m.Zone)}
		}
		s.zone = zone
	}
	switch {
	case m.Weekly != "" && (m.From != "" || m.To != ""):
		return s, []error{fmt.Errorf("weekly %q: leave it out, or from and to: one item is one or the other", m.Weekly)}
	case m.Weekly != "":
		if err := s.week(m.Weekly); err != nil {
			errs = append(errs, err)
		}
		return s, errs
	case m.From == "" || m.To == "":
		return s, []error{errors.New("from: want both from and to, or weekly")}
	}
	var err error
	if s.from, err = instant(m.From, s.zone); err != nil {
		errs = append(errs, fmt.Errorf("from %q: %w", m.From, err))
	}
	if s.to, err = instant(m.To, s.zone); err != nil {
		errs = append(errs, fmt.Errorf("to %q: %w", m.To, err))
	}
	if len(errs) == 0 && !s.from.Before(s.to) {
		errs = append(errs, fmt.Errorf("to %q: want it after from %q", m.To, m.From))
	}
	return s, errs
}

func instant(text string, zone *time.Location) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New("want a time such as 2026-03-07T22:00:00Z or 2026-03-07 22:00")
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// week reads days and times, such as "Sat,Sun 22:00-02:00".
func (s *stretch) week(text string) error {
	wrong := func(why string) error {
		return fmt.Errorf("weekly %q: %s; want days and times such as \"Sat,Sun 22:00-02:00\" or \"Mon-Fri 01:00-01:30\"", text, why)
	}
	parts := strings.Fields(text)
	if len(parts) != 2 {
		return wrong("it has not two parts")
	}
	for _, span := range strings.Split(parts[0], ",") {
		first, last, ranged := strings.Cut(span, "-")
		a, b := weekday(first), weekday(last)
		if !ranged {
			b = a
		}
		if a < 0 || b < 0 {
			return wrong(fmt.Sprintf("%q is no day", span))
		}
		for d := a; ; d = (d + 1) % 7 {
			s.days[d] = true
			if d == b {
				break
			}
		}
	}
	first, last, ok := strings.Cut(parts[1], "-")
	start, err1 := ofDay(first)
	end, err2 := ofDay(last)
	if !ok || err1 != nil || err2 != nil || start == 24*time.Hour || start == end {
		return wrong(fmt.Sprintf("%q are no two different times of the day", parts[1]))
	}
	if end < start {
		end += 24 * time.Hour
	}
	s.weekly, s.start, s.length = true, start, end-start
	return nil
}

func weekday(text string) int {
	for i, name := range weekdays {
		if text = strings.ToLower(text); len(text) >= 3 && strings.HasPrefix([]string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}[i], text) && strings.HasPrefix(text, name) {
			return i
		}
	}
	return -1
}

func ofDay(text string) (time.Duration, error) {
	if text == "24:00" {
		return 24 * time.Hour, nil
	}
	t, err := time.Parse("15:04", text)
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, err
}

// overlaps says whether [from, to) has a part in the stretch. A weekly one starts and ends by
// the clock of its zone, also on days when that is moved.
func (s *stretch) overlaps(from, to time.Time) bool {
	if !s.weekly {
		return s.from.Before(to) && from.Before(s.to)
	}
	// The stretch of the day before may still go on.
	at := from.In(s.zone)
	for i := -1; ; i++ {
		clock := func(since time.Duration) time.Time {
			return time.Date(at.Year(), at.Month(), at.Day()+i, 0, int(since.Minutes()), 0, 0, s.zone)
		}
		start, end := clock(s.start), clock(s.start+s.length)
		if !start.Before(to) {
			return false
		}
		if !start.Before(end) { // an hour that the clock leaves out
			end = start.Add(s.length)
		}
		// Noon is of each day; some zones leave midnight out.
		if s.days[clock(12*time.Hour).Weekday()] && from.Before(end) {
			return true
		}
	}
}

// over gives the first maintenance of slice that has a part in [from, to), or nil.
func (p plan) over(s Slice, from, to time.Time) *stretch {
	for i := range p {
		if p[i].Matches(s) && p[i].overlaps(from, to) {
			return &p[i]
		}
	}
	return nil
}

// String says why alerts are not sent.
func (s *stretch) String() string {
	if s.reason == "" {
		return "planned maintenance"
	}
	return "planned maintenance: " + s.reason
}
