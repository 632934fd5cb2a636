package identity

import (
	"strings"
	"testing"
)

// The vectors are HMAC-SHA-256 as openssl computes it:
// printf 'user\0alice@example.org' | openssl dgst -sha256 -hmac 0123456789abcdef.
func TestHashIsTheFirst64BitsOfHMACSHA256(t *testing.T) {
	h, err := New("0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind Kind
		want uint64
	}{{User, 0xaa01f2d0c1b4c395}, {Tenant, 0x91517b9a73559a86}} {
		for _, value := range []string{"alice@example.org", " alice@example.org\n"} {
			if got, ok := h.Hash(c.kind, value); !ok || uint64(got) != c.want {
				t.Errorf("%s %q: %#x, %v, want %#x", c.kind, value, uint64(got), ok, c.want)
			}
		}
	}
}

func TestKeysDecideTheHash(t *testing.T) {
	a, _ := New("0123456789abcdef")
	b, _ := New("0123456789abcdeg")
	trimmed, _ := New("0123456789abcdef\n")
	x, _ := a.Hash(User, "alice")
	y, _ := b.Hash(User, "alice")
	if x == y {
		t.Error("two keys give one hash")
	}
	if z, _ := trimmed.Hash(User, "alice"); z != x {
		t.Error("a key with a line's end is another key")
	}
}

func TestAKeyThatIsTooShortIsRefusedAndNotShown(t *testing.T) {
	_, err := New("canary-short")
	if err == nil || !strings.Contains(err.Error(), "has 12 bytes") || strings.Contains(err.Error(), "canary") {
		t.Errorf("error %v", err)
	}
}

func TestNothingIsHashedWithoutAKeyOrWithoutAName(t *testing.T) {
	none, err := New("  ")
	if none != nil || err != nil {
		t.Fatalf("%v, %v", none, err)
	}
	if _, ok := none.Hash(User, "alice"); ok {
		t.Error("hashed without a key")
	}
	if _, ok := (&Hasher{}).Hash(User, "alice"); ok {
		t.Error("hashed with an empty key")
	}
	h, _ := New("0123456789abcdef")
	for _, value := range []string{"", " ", "None", "null", "undefined", "NOT_GIVEN", "[REDACTED]", strings.Repeat("x", MaxValueBytes+1)} {
		if _, ok := h.Hash(User, value); ok {
			t.Errorf("%.20q names somebody", value)
		}
	}
	if _, ok := h.Hash(User, strings.Repeat("x", MaxValueBytes)); !ok {
		t.Error("the longest value names nobody")
	}
}
