package view

import (
	"fmt"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// artifactText says what was stored and what was not.
func artifactText(d *events.ArtifactSavedData) string {
	var size int64
	var names []string
	for _, a := range d.Artifacts {
		if size += a.Size; len(names) < 5 {
			names = append(names, Clip(a.Name, 60))
		}
	}
	if more := len(d.Artifacts) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	stored := join(fmt.Sprintf("%s of call %s stored, %s", Plural(len(d.Artifacts), "artifact"), d.Call, Bytes(size)),
		strings.Join(names, ", "))
	left := len(d.Left) + d.LeftMore
	if left == 0 {
		return stored
	}
	why := ""
	if len(d.Left) > 0 {
		why = Clip(d.Left[0].Path, 80) + ": " + Clip(d.Left[0].Reason, 160)
	}
	missing := join(Plural(left, "file")+" left out", why)
	if len(d.Artifacts) == 0 {
		return "call " + d.Call + ": " + missing
	}
	return stored + "; " + missing
}
