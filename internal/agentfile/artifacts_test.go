package agentfile_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/pkg/events"
)

func TestArtifactRules(t *testing.T) {
	t.Parallel()
	t.Run("ART-3 ART-5 ART-6 ART-7 ART-8 ART-14 what a file says of artifacts is in force, also once it was stored", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]*events.ArtifactRules{
			"artifacts: {capture: false}":                                                       {Off: true},
			"artifacts: {capture: true, include: ['**/*.go'], exclude: []}":                     {On: true, Include: []string{"**/*.go"}, Exclude: []string{}},
			"artifacts: {max_file_size: 1m, max_total_size: 1.5g, mode: local, ttl: 48h}":       {MaxFile: 1 << 20, MaxRun: 3 << 29, Mode: "local", TTLMS: 172_800_000},
			"artifacts: {max_file_size: 100m, max_total_size: 4096, cleanup_on_complete: true}": {MaxFile: 100 << 20, MaxRun: 4096, Clean: true},
			"artifacts: {}": nil,
			"":              nil,
		} {
			a, warnings, err := agentfile.Parse("x", []byte("---\nmodel: a/b\nharness: agentic\n"+text+"\n---\n"))
			if err != nil || len(warnings) != 0 {
				t.Errorf("%s: %v %v", text, err, warnings)
				continue
			}
			b, err := json.Marshal(a)
			var back events.Agent
			if err == nil {
				err = json.Unmarshal(b, &back)
			}
			if err != nil || !reflect.DeepEqual(back.Artifacts, want) {
				t.Errorf("%s: got %+v, %v; want %+v", text, back.Artifacts, err, want)
			}
		}
	})
	t.Run("ART-6 C34 what cannot be is an error that names the line and what is wanted", func(t *testing.T) {
		t.Parallel()
		for value, path := range map[string]string{"{mode: cloudship}": "mode", "{mode: s3}": "mode", "{max_file_size: 101m}": "max_file_size", "{max_file_size: 0}": "max_file_size",
			"{max_total_size: -1}": "max_total_size", "{max_total_size: 999999999999t}": "max_total_size", "{include: ['[']}": "include", "{include: ['{a,b}']}": "include", "{ttl: 1ms}": "ttl", "{ttk: 1h}": "ttk", "{capture: perhaps}": "capture"} {
			_, _, err := agentfile.Parse("x", []byte("---\nmodel: a/b\nartifacts: "+value+"\n---\n"))
			e, ok := errors.AsType[*agentfile.Error](err)
			if !ok || e.Line != 3 || len(e.Path) < len("artifacts."+path) || e.Path[:len("artifacts."+path)] != "artifacts."+path {
				t.Errorf("%s: %v", value, err)
			}
		}
	})
}
