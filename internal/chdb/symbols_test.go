//go:build linux || darwin

package chdb

import (
	"slices"
	"testing"
)

func TestRequiredSymbolsAreTheBoundOnes(t *testing.T) {
	var bound []string
	for name := range (&functions{}).bindings() {
		bound = append(bound, name)
	}
	slices.Sort(bound)
	if !slices.Equal(bound, requiredSymbols) {
		t.Errorf("bound %v\nrequired %v", bound, requiredSymbols)
	}
}
