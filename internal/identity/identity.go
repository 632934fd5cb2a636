package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
)

// EnvKey is the environment variable that holds the key by convention: the collector's
// configuration names it, and `detectd erase` reads it.
const EnvKey = "DRIFTLINE_IDENTITY_KEY"

const (
	// MinKeyBytes is the shortest key: hashes under a key that can be guessed can be undone by
	// hashing every known user.
	MinKeyBytes = 16
	// MaxValueBytes bounds what can be an id; longer text is none.
	MaxValueBytes = 1024
)

// Kind is whom a value names. Equal values of different kinds have different hashes.
type Kind string

// The kinds.
const (
	User   Kind = "user"
	Tenant Kind = "tenant"
)

// Hasher hashes ids under one key. Its zero value and nil have no key and hash nothing. It
// may be used by several goroutines.
type Hasher struct{ key []byte }

// New takes the key's text as it is, without white space around it, so that one read from a
// file is the same. An empty key gives a nil Hasher. The error says what is wrong with a
// key that is too short, and never shows it.
func New(key string) (*Hasher, error) {
	key = strings.TrimSpace(key)
	if key == "" {
		return nil, nil
	}
	if len(key) < MinKeyBytes {
		return nil, fmt.Errorf("has %d bytes, and with fewer than %d hashes could be undone by trying keys: make one with `openssl rand -hex 32`", len(key), MinKeyBytes)
	}
	return &Hasher{key: []byte(key)}, nil
}

// Hash is the first 64 bits, big-endian, of HMAC-SHA-256 over the kind, a zero byte and the
// value without white space around it. It is not ok without a key or where the value names
// nobody.
//
// Of n users, n(n-1)/2^65 pairs are expected to share a hash: of ten million, 0.000003.
func (h *Hasher) Hash(kind Kind, value string) (hash int64, ok bool) {
	value = strings.TrimSpace(value)
	if h == nil || len(h.key) == 0 || !Names(value) {
		return 0, false
	}
	mac := hmac.New(sha256.New, h.key)
	mac.Write([]byte(kind))
	mac.Write([]byte{0})
	mac.Write([]byte(value))
	return int64(binary.BigEndian.Uint64(mac.Sum(nil))), true
}

// Names says whether a value can name somebody: it is not empty, not one of the words that
// programs write for nothing, and at most MaxValueBytes long.
func Names(value string) bool {
	switch value = strings.TrimSpace(value); strings.ToLower(value) {
	case "", "none", "null", "nil", "undefined", "not_given", "[redacted]":
		return false
	}
	return len(value) <= MaxValueBytes
}
