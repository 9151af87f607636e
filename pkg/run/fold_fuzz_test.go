package run_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// foldSlow is far above what a list of the size of a fuzz input needs.
const foldSlow = 10 * time.Second

// FuzzFold proves EVT-4, SAFE-2 and SAFE-12: any list of bytes is a state or an error; folded in two parts it is the
// same; what is written and read again is the same; and no one sees the state before change.
func FuzzFold(f *testing.F) {
	for _, file := range soundHistories(f) {
		f.Add(file, uint8(3))
		f.Add(file, uint8(200))
	}
	f.Fuzz(func(t *testing.T, file []byte, at uint8) { judgeFold(t, runtest.Split(file), at) })
}

// FuzzStory is FuzzFold for events that are sound but for what they say: each line is a kind and its data, and gets the
// envelope, the sequence and the hash that it must have.
func FuzzStory(f *testing.F) {
	for _, file := range soundHistories(f) {
		var story []byte
		for _, b := range runtest.Split(file) {
			ev, err := events.Decode(b)
			if err != nil {
				f.Fatal(err)
			}
			kind, _ := ev.Kind()
			story = append(append(append(append(story, kind...), ' '), ev.Data...), '\n')
		}
		f.Add(story, uint8(3))
	}
	f.Fuzz(func(t *testing.T, story []byte, at uint8) {
		var evs [][]byte
		prev := ""
		for line := range bytes.Lines(story) {
			kind, data, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
			word, ok := events.Lookup(events.Kind(kind))
			if !ok {
				continue
			}
			ev := events.Event{SpecVersion: "1.0", ID: "id", Source: events.Source("s", word.Author), Type: word.Kind.Type(), Subject: "r",
				Time: time.Unix(1_800_000_000+int64(len(evs)), 0).UTC(), ContentType: "application/json", Sequence: uint64(len(evs)) + 1, PrevHash: prev,
				Identity: events.Identity{Station: "s", Run: "r"}, Data: data}
			b, err := ev.Encode()
			if err != nil {
				continue // the data is no JSON
			}
			evs, prev = append(evs, b), run.HashOf(b)
		}
		judgeFold(t, evs, at)
	})
}

// judgeFold folds events as a whole and in two parts.
func judgeFold(t *testing.T, evs [][]byte, at uint8) {
	t.Helper()
	begin := time.Now()
	whole, err := run.Fold(run.State{}, evs...)
	if took := time.Since(begin); took > foldSlow {
		t.Fatalf("took %s for %d events", took, len(evs))
	}
	if err != nil && !reflect.DeepEqual(whole, run.State{}) {
		t.Fatalf("an error and a state: %v, %+v", err, whole)
	}
	cut := min(int(at), len(evs))
	part, partErr := run.Fold(run.State{}, evs[:cut]...)
	if partErr != nil {
		if err == nil {
			t.Fatalf("the whole folds, its beginning does not: %v", partErr)
		}
		return
	}
	before := encoded(t, part)
	rest, restErr := run.Fold(part, evs[cut:]...)
	if (restErr == nil) != (err == nil) || !reflect.DeepEqual(rest, whole) {
		t.Fatalf("in two parts: %v, in one: %v", restErr, err)
	}
	if !bytes.Equal(encoded(t, part), before) {
		t.Fatal("the state before was changed")
	}
	if err != nil || len(evs) == 0 {
		return
	}
	if whole.Sequence != uint64(len(evs)) || whole.Hash != run.HashOf(evs[len(evs)-1]) || !events.ValidID(whole.HarnessID) {
		t.Fatalf("%d events: sequence %d, hash %s, run %q", len(evs), whole.Sequence, whole.Hash, whole.HarnessID)
	}
	again, err := run.Codec{}.Decode(encoded(t, whole))
	if err != nil {
		t.Fatalf("a folded state cannot be read: %v", err)
	}
	if !bytes.Equal(encoded(t, again), encoded(t, whole)) {
		t.Fatal("a state is another after writing and reading it")
	}
	_ = run.InfoOf(whole)
}

func encoded(t *testing.T, s run.State) []byte {
	t.Helper()
	b, err := run.Codec{}.Encode(s)
	if err != nil {
		t.Fatalf("a folded state cannot be written: %v", err)
	}
	return b
}

// FuzzChain proves SAFE-2: whatever is done to a history, if it still folds and ends with the same event, nothing was
// done to it. how says what is done at place at with the bytes.
func FuzzChain(f *testing.F) {
	files := soundHistories(f)
	for n := range files {
		for how := range uint8(6) {
			f.Add(uint8(n), uint8(4), how, uint16(40), []byte("x"))
		}
	}
	f.Fuzz(func(t *testing.T, n, at, how uint8, place uint16, put []byte) {
		sound := runtest.Split(files[int(n)%len(files)])
		if len(sound) < 3 {
			t.Fatal("a history without events")
		}
		i := int(at) % (len(sound) - 1) // never the last
		evs := slices.Clone(sound)
		b := slices.Clone(evs[i])
		p := int(place) % len(b)
		switch how % 6 {
		case 0: // other bytes
			evs[i] = append(append(b[:p:p], put...), b[min(len(b), p+len(put)):]...)
		case 1: // more bytes
			evs[i] = append(append(b[:p:p], put...), b[p:]...)
		case 2: // fewer bytes
			evs[i] = append(b[:p:p], b[min(len(b), p+1+len(put)):]...)
		case 3: // gone
			evs = slices.Delete(evs, i, i+1)
		case 4: // twice
			evs = slices.Insert(evs, i, evs[i])
		case 5: // in another order
			j := p % (len(evs) - 1)
			evs[i], evs[j] = evs[j], evs[i]
		}
		_, err := run.Fold(run.State{}, evs...)
		if same := slices.EqualFunc(evs, sound, bytes.Equal); same != (err == nil) {
			t.Fatalf("the same: %v, the fold says %v", same, err)
		}
	})
}

// soundHistories returns the sound histories that are kept.
func soundHistories(f *testing.F) [][]byte {
	f.Helper()
	names, err := filepath.Glob(filepath.Join(histories, "[^b]*.jsonl"))
	if err != nil || len(names) == 0 {
		f.Fatalf("no histories: %v", err)
	}
	var files [][]byte
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		files = append(files, b)
	}
	return files
}
