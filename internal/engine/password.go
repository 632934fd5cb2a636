package engine

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// PasswordFile is the name of the file in a data folder that holds the endpoint's password.
const PasswordFile = "engine-password"

// Password returns the password for an endpoint over the data folder dir: what DRIFTLINE_ENGINE_PASSWORD holds, or else the content
// of the folder's password file, which is made with a random password at the first call and readable by its owner only. So
// other users of the machine cannot query, and tools keep working over restarts.
func Password(dir string) (password, source string, err error) {
	if password := os.Getenv(EnvPassword); password != "" {
		return password, EnvPassword, nil
	}
	path := filepath.Join(dir, PasswordFile)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", "", passwordFolderError(err)
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createPassword(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", "", passwordFolderError(err)
		}
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return "", "", fmt.Errorf("engine: the endpoint's password: %w: make %s readable, or delete it to have a new one made", err, path)
	}
	password = strings.TrimSpace(string(text))
	if password == "" {
		return "", "", fmt.Errorf("engine: the endpoint's password file %s is empty: put a password into it, or delete it to have a new one made", path)
	}
	return password, path, nil
}

// createPassword makes the file complete or not at all, and never over one that is there.
func createPassword(path string) error {
	var random [16]byte
	_, _ = rand.Read(random[:])
	file, err := os.CreateTemp(filepath.Dir(path), PasswordFile+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(hex.EncodeToString(random[:]) + "\n")
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Link(file.Name(), path)
}

func passwordFolderError(err error) error {
	return fmt.Errorf("data folder: %w; give --data a folder that this user may write to", err)
}
