package schema

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"path"
)

//go:embed sql/*/*.sql
var files embed.FS

// Version is the newest schema version this binary knows, and the only one it works with.
const Version = 6

// source returns an object's template text.
func source(version uint32, name string) string {
	text, err := files.ReadFile(path.Join("sql", fmt.Sprintf("%04d", version), name+".sql"))
	if err != nil {
		panic(fmt.Sprintf("schema: version %d lists %q, which has no template: %v", version, name, err))
	}
	return string(text)
}

// Step is one object or change of one version, rendered for given options.
type Step struct {
	Version uint32
	// Number counts the version's steps from 1.
	Number uint32
	// Name is the table's or view's name without its database, or says what changes.
	Name string
	// Checksum is the SHA-256 of the template, in hex, so it is the same on one node and
	// on a cluster, and for every retention.
	Checksum string
	// Statements create or change the object; each is safe to run again. A step that rebuilds
	// a table has none: what it has to do depends on what is there, see DryRun.
	Statements []string
	// of is what the step is about.
	of object
}

// Steps renders every step up to Version, in the order they are applied. The error is
// that of o.Validate.
func Steps(o Options) ([]Step, error) { return stepsUpTo(o, Version) }

// stepsUpTo renders the steps that a binary of an earlier version would know.
func stepsUpTo(o Options, last uint32) ([]Step, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	o.last = last
	var steps []Step
	for version := uint32(1); version <= last; version++ {
		for i, obj := range versions[version] {
			text := source(version, obj.name)
			sum := sha256.Sum256([]byte(text))
			step := Step{Version: version, Number: uint32(i + 1), Name: obj.name, Checksum: hex.EncodeToString(sum[:]), of: obj}
			var err error
			if step.Statements, err = o.statements(obj, text); err != nil {
				return nil, err
			}
			steps = append(steps, step)
		}
	}
	return steps, nil
}

// statements renders one object from its template's text.
func (o Options) statements(obj object, text string) ([]string, error) {
	if obj.rebuilds != "" {
		return nil, nil
	}
	if version, by, ok := o.rebuiltBy(obj.name); ok {
		text = source(version, by.name) // a table that is new is made as it is to be
	}
	rendered, err := o.render(obj.name, text)
	if err != nil {
		return nil, err
	}
	if obj.alters != "" {
		return o.alterStatements(obj.alters, rendered)
	}
	out := []string{rendered}
	if o.Cluster != "" && obj.isTable() {
		out = append(out, o.distributed(obj))
	}
	return out, nil
}
