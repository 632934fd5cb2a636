package detector

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
)

// Numbers are named values, a handful: a list of them costs a fraction of a map, and each verdict
// of each round has one. As JSON they are an object with its names in order.
type Numbers []Number

// Number is a named value.
type Number struct {
	Name  string
	Value float64
}

// mostNumbers is how many nearly all verdicts have at most.
const mostNumbers = 12

// set sets a value. NaN and infinities are left out: JSON has neither.
func (n *Numbers) set(name string, x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return
	}
	for i := range *n {
		if (*n)[i].Name == name {
			(*n)[i].Value = x
			return
		}
	}
	if *n == nil {
		*n = make(Numbers, 0, mostNumbers)
	}
	*n = append(*n, Number{name, x})
}

// Get is a value by its name; not ok where there is none.
func (n Numbers) Get(name string) (x float64, ok bool) {
	for i := range n {
		if n[i].Name == name {
			return n[i].Value, true
		}
	}
	return 0, false
}

// At is a value by its name, 0 where there is none.
func (n Numbers) At(name string) float64 {
	x, _ := n.Get(name)
	return x
}

// byName gives the values by their names.
func (n Numbers) byName() map[string]float64 {
	out := make(map[string]float64, len(n))
	for _, x := range n {
		out[x.Name] = x.Value
	}
	return out
}

// MarshalJSON implements json.Marshaler.
func (n Numbers) MarshalJSON() ([]byte, error) { return json.Marshal(n.byName()) }

// UnmarshalJSON implements json.Unmarshaler.
func (n *Numbers) UnmarshalJSON(text []byte) error {
	var by map[string]float64
	if err := json.Unmarshal(text, &by); err != nil {
		return err
	}
	*n = nil
	for name, x := range by {
		*n = append(*n, Number{name, x})
	}
	slices.SortFunc(*n, func(a, b Number) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}
