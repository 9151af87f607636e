package agentfile_test

import (
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
)

func TestImages(t *testing.T) {
	t.Parallel()
	for value, none := range map[string]bool{"": false, "config: {images: true}\n": false, "config: {images: false}\n": true} {
		t.Run("PLUS-2 a file says whether its model takes images: "+value, func(t *testing.T) {
			t.Parallel()
			a, _, err := agentfile.Parse("x", []byte("---\nmodel: a/b\n"+value+"---\n"))
			if err != nil || a.NoImages != none {
				t.Errorf("got %v, %v", a.NoImages, err)
			}
		})
	}
	t.Run("PLUS-2 another word is an error", func(t *testing.T) {
		t.Parallel()
		if _, _, err := agentfile.Parse("x", []byte("---\nmodel: a/b\nconfig: {images: never}\n---\n")); err == nil {
			t.Error("it was taken")
		}
	})
}
