package series

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Point is one latency and when it ended.
type Point struct {
	At      time.Time
	Latency time.Duration
}

// Units lists the units of values.
var Units = []string{"ns", "us", "ms", "s"}

var unitOf = map[string]time.Duration{"ns": time.Nanosecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second}

// Read reads lines of "timestamp,value". A timestamp is RFC 3339, or seconds, milliseconds,
// microseconds or nanoseconds since 1970, told apart by their size: each holds for the years
// 1973 to 5138 of the unit before it. The first line may be a header, of which neither field is a time or a number. An error names the
// line, and the column in characters.
func Read(r io.Reader, unit string) ([]Point, error) {
	scale, ok := unitOf[unit]
	if !ok {
		return nil, fmt.Errorf("unit %q: want one of %v", unit, Units)
	}
	text := bufio.NewReader(r)
	if mark, err := text.Peek(3); err == nil && string(mark) == "\ufeff" { // spreadsheets begin files with it
		_, _ = text.Discard(3)
	}
	in := csv.NewReader(text)
	in.FieldsPerRecord, in.TrimLeadingSpace, in.ReuseRecord = -1, true, true
	var out []Point
	for first := true; ; first = false {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err // it names line and column
		}
		at := func(field int, format string, args ...any) error {
			line, column := in.FieldPos(field)
			return fmt.Errorf("line %d, column %d: "+format, append([]any{line, column}, args...)...)
		}
		if len(record) != 2 {
			return nil, at(0, "fields: %d; want two with a comma between them, timestamp,value", len(record))
		}
		when, err := timestamp(strings.TrimSpace(record[0]))
		if err != nil {
			if _, e := number(record[1]); first && e != nil {
				continue // a header: neither is what it should be
			}
			return nil, at(0, "%w", err)
		}
		v, err := number(record[1])
		if err != nil {
			return nil, at(1, "value %q: want a number", record[1])
		}
		latency := v * float64(scale)
		if !(latency >= 0 && latency < float64(maxLatency)) {
			return nil, at(1, "value %q: want 0 or more and less than %v, in %s", record[1], maxLatency, unit)
		}
		out = append(out, Point{when, time.Duration(latency)})
	}
	if len(out) == 0 {
		return nil, errors.New("no values: want lines of timestamp,value")
	}
	return out, nil
}

// number reads a decimal number; what else Go's programs may write as one is no latency.
func number(s string) (float64, error) {
	s = strings.TrimSpace(s)
	if strings.ContainsAny(s, "_xX") {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(s, 64)
}

// maxLatency is beyond what any call takes; such a value is in another unit.
const maxLatency = 30 * 24 * time.Hour

func timestamp(s string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UTC(), nil
	}
	wrong := fmt.Errorf("timestamp %q: want RFC 3339, or seconds, ms, us or ns since 1970", s)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return epoch(float64(n), n, wrong)
	}
	v, err := number(s)
	if err != nil || math.IsNaN(v) || math.Abs(v) > math.MaxInt64/2 {
		return time.Time{}, wrong
	}
	return epoch(v, 0, wrong)
}

// epoch reads a number of seconds, ms, us or ns; exact is the same as a whole number, or 0.
func epoch(v float64, exact int64, wrong error) (time.Time, error) {
	per := time.Second
	for _, next := range []time.Duration{time.Millisecond, time.Microsecond, time.Nanosecond} {
		if v < 1e11*float64(time.Second/per) {
			break
		}
		per = next
	}
	switch {
	case v < 0:
		return time.Time{}, wrong
	case exact != 0:
		return time.Unix(exact/int64(time.Second/per), exact%int64(time.Second/per)*int64(per)).UTC(), nil
	}
	return time.Unix(0, int64(v*float64(per))).UTC(), nil
}
