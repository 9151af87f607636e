package at

import (
	"testing"

	"github.com/inspan/inspan/internal/archive"
)

// Bucket is the place that a name means.
func Bucket(t *testing.T, where string) archive.Place {
	t.Helper()
	b, err := newBucket(where)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
