package callback

import (
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	t.Run("DLV-8 what is to be called is in the file before the log is read on", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "state.json")
		at := func(n uint64) client.Position { return client.Position{events.RunCompleted: n} }
		q, err := openQueue(path, "s1", at(1), []Target{{Name: "a"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for n, id := range []string{"call_1", "call_2"} {
			if _, err := q.add(at(uint64(n+2)), []Delivery{{ID: id, Target: "a"}}); err != nil {
				t.Fatal(err)
			}
			s, err := ReadState(path) // as the next process does that comes after a kill
			if err != nil || len(s.Pending) != n+1 || s.Pending[n].ID != id || s.Position[events.RunCompleted] != uint64(n+2) {
				t.Errorf("behind %s the file has %+v, %v", id, s, err)
			}
		}
	})
}
