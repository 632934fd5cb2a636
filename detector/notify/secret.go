package notify

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Secret reads a secret from where it is kept: env:NAME or file:PATH. A secret itself is
// refused, since others on the machine can read a command line.
func Secret(where string) (string, error) {
	kind, at, _ := strings.Cut(where, ":")
	text := ""
	switch {
	case kind == "env" && at != "":
		text = os.Getenv(at)
	case kind == "file" && at != "":
		read, err := os.ReadFile(at)
		if err != nil {
			return "", fmt.Errorf("read the secret: %w", err)
		}
		text = string(read)
	default:
		return "", errors.New("want env:NAME or file:PATH, which hold the secret, so that it stands in no list of processes")
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", fmt.Errorf("%s is empty", where)
	}
	return text, nil
}
