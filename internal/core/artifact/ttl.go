package artifact

import (
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// ParseTTLs reads how long what the runs of projects make is kept: entries PROJECT=DURATION of at least a second.
func ParseTTLs(list []string) (map[string]time.Duration, error) {
	out := map[string]time.Duration{}
	for _, entry := range list {
		project, text, ok := strings.Cut(strings.TrimSpace(entry), "=")
		ttl, err := time.ParseDuration(text)
		if !ok || err != nil || ttl < time.Second || events.CheckID("project", project) != nil {
			return nil, fmt.Errorf("%q is not PROJECT=DURATION: write for example acme=720h", entry)
		}
		if _, twice := out[project]; twice {
			return nil, fmt.Errorf("the project %s is there twice", project)
		}
		out[project] = ttl
	}
	return out, nil
}
