package strictconf

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
)

type settings struct {
	Wait  time.Duration `mapstructure:"wait"`
	Limit time.Duration `mapstructure:"limit"`
	Size  int           `mapstructure:"size"`
	Part  part          `mapstructure:"part"`
}

type part struct {
	Name  string `mapstructure:"name"`
	Count int    `mapstructure:"count"`
}

func (s *settings) Unmarshal(conf *confmap.Conf) error { return Read(conf, s) }

func (s *settings) Validate() error {
	var errs []error
	if s.Wait >= s.Limit {
		errs = append(errs, fmt.Errorf("'wait' (%s) must be shorter than 'limit' (%s)", s.Wait, s.Limit))
	}
	if s.Size < 1 {
		errs = append(errs, fmt.Errorf("size: %d is not above 0", s.Size))
	}
	return errors.Join(errs...)
}

func (p *part) Validate() error {
	if p.Count < 1 {
		return errors.New("count is not above 0")
	}
	return nil
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name    string
		in      map[string]any
		says    []string
		without []string
	}{
		{name: "good", in: map[string]any{"wait": "1s", "part": map[string]any{"name": "x"}}},
		{name: "values are the collector's to judge", in: map[string]any{"size": 0}},
		{"a key and a value", map[string]any{"wiat": "1s", "size": 0}, []string{"invalid keys: wiat", "size: 0"}, nil},
		{"an unread value is not judged", map[string]any{"wait": "9s", "limit": "soon", "size": 0}, []string{"'limit'", "size: 0"}, []string{"shorter"}},
		{"an unread part is not judged", map[string]any{"part": 3, "size": 0, "wait": "9s"}, []string{"'part'", "size: 0", "shorter"}, []string{"count is not"}},
		{"a part's value beside an unknown key", map[string]any{"part": map[string]any{"count": -1, "x": 1}, "size": "many"}, []string{"invalid keys: x", "'size'", "count is not above 0"}, []string{"size: "}},
		{name: "a whole number with a point", in: map[string]any{"size": 2.0}},
		{"a fraction is not cut off", map[string]any{"size": 0.5, "wait": "9s"}, []string{"'size' must be a whole number, is 0.5", "shorter"}, []string{"size: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := &settings{Wait: time.Second, Limit: 2 * time.Second, Size: 1, Part: part{Count: 1}}
			err := confmap.NewFromStringMap(c.in).Unmarshal(cfg)
			if c.says == nil {
				require.NoError(t, err)
				return
			}
			for _, phrase := range c.says {
				require.ErrorContains(t, err, phrase)
			}
			for _, phrase := range c.without {
				require.NotContains(t, err.Error(), phrase)
			}
		})
	}
}
