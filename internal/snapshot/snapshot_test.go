package snapshot_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// forms are run through by every test of the store.
var forms = []snapshot.Form{snapshot.FormBinary, snapshot.FormJSON}

func newStore(t *testing.T, form snapshot.Form) (*mem.Station, *snapshot.Store) {
	t.Helper()
	st, err := mem.New("default", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return st, &snapshot.Store{KV: st.KV(topology.StateBucket), Blobs: st.Blobs(), Form: form}
}

// history is a run in the middle of a call; text is what its model said.
func history(id, text string) run.State {
	b := runtest.New("default", id)
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("build")), runtest.Ready("build"), runtest.Allowed("build"),
		runtest.Turn(1, "build", text, runtest.Asked(1, 1, "read", `{"path":"a"}`)))
	return b.State()
}

func same(t *testing.T, got, want run.State) {
	t.Helper()
	g, err := run.Codec{}.Encode(got)
	if err != nil {
		t.Fatal(err)
	}
	w, err := run.Codec{}.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(g, w) {
		t.Errorf("got %d bytes of state, want %d:\n%.500s\n%.500s", len(g), len(w), g, w)
	}
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		t.Run(string(form), func(t *testing.T) { t.Parallel(); testStore(t, form) })
	}
	t.Run("EVT-5 a snapshot of the other form is read, whatever is written today", func(t *testing.T) {
		t.Parallel()
		for _, form := range forms {
			_, store := newStore(t, form)
			want := history("run-a", "hello")
			if err := store.Save(t.Context(), want, 5); err != nil {
				t.Fatal(err)
			}
			for _, other := range append(forms, "") {
				store.Form = other
				got, head, err := store.Load(t.Context(), "run-a")
				if err != nil || head != 5 {
					t.Fatalf("written as %s, read by a store of %q: head %d, %v", form, other, head, err)
				}
				same(t, got, want)
			}
		}
	})
	t.Run("EVT-5 a store with no form writes the binary one, and one with a wrong form writes nothing", func(t *testing.T) {
		t.Parallel()
		_, store := newStore(t, "")
		if err := store.Save(t.Context(), history("run-a", "hello"), 5); err != nil {
			t.Fatal(err)
		}
		if r := rowOf(t, store, "run-a"); r.Codec != snapshot.FormBinary || !bytes.HasPrefix(r.Tail, []byte("ISNP")) {
			t.Errorf("codec %q, %d bytes", r.Codec, len(r.Tail))
		}
		store.Form = "xml"
		if err := store.Save(t.Context(), history("run-b", "hello"), 5); err == nil || !strings.Contains(err.Error(), "json+gzip") {
			t.Errorf("form xml: got %v, want an error that names the forms", err)
		}
	})
}

func testStore(t *testing.T, form snapshot.Form) {
	t.Run("PERS-2 a state comes back equal, with its place in the log", func(t *testing.T) {
		t.Parallel()
		_, store := newStore(t, form)
		want := history("run-a", "hello")
		if err := store.Save(t.Context(), want, 42); err != nil {
			t.Fatal(err)
		}
		got, head, ok := store.Latest(t.Context(), "run-a")
		if !ok || head != 42 {
			t.Fatalf("head %d, %v", head, ok)
		}
		same(t, got, want)
		if !reflect.DeepEqual(got.Waiting(), want.Waiting()) {
			t.Error("the gates differ")
		}
	})
	t.Run("PERS-2 what comes back folds on as if it had never been stored", func(t *testing.T) {
		t.Parallel()
		_, store := newStore(t, form)
		b := runtest.New("default", "run-a")
		b.Append(runtest.Created(), runtest.Started())
		if err := store.Save(t.Context(), b.State(), 2); err != nil {
			t.Fatal(err)
		}
		got, _, err := store.Load(t.Context(), "run-a")
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range b.Append(runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a")) {
			if got, err = got.Apply(ev); err != nil {
				t.Fatal(err)
			}
		}
		same(t, got, b.State())
	})
	t.Run("PERS-3 an unknown run has none, a later one takes the place of an earlier", func(t *testing.T) {
		t.Parallel()
		_, store := newStore(t, form)
		if _, _, ok := store.Latest(t.Context(), "run-a"); ok {
			t.Error("something was found")
		}
		if _, _, err := store.Load(t.Context(), "run-a"); !errors.Is(err, kernel.ErrNotFound) {
			t.Errorf("err = %v", err)
		}
		for head, text := range []string{"first", "second"} {
			if err := store.Save(t.Context(), history("run-a", text), uint64(head)); err != nil {
				t.Fatal(err)
			}
		}
		got, head, err := store.Load(t.Context(), "run-a")
		if err != nil || head != 1 {
			t.Fatalf("head %d, %v", head, err)
		}
		same(t, got, history("run-a", "second"))
	})
}

func TestLarge(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		t.Run(string(form), func(t *testing.T) { t.Parallel(); testLarge(t, form) })
	}
}

func testLarge(t *testing.T, form snapshot.Form) {
	st, store := newStore(t, form)
	var noise strings.Builder // text by chance does not compress well
	for noise.Len() < 1<<20 {
		noise.WriteString(rand.Text())
	}
	task := runtest.Created()
	task.Task = noise.String()
	b := runtest.New("default", "run-a")
	b.Append(task, runtest.Started())
	want := b.State()
	if err := store.Save(t.Context(), want, 7); err != nil {
		t.Fatal(err)
	}
	row := rowOf(t, store, "run-a")
	t.Run("PERS-2 a large state goes to the object store and comes back", func(t *testing.T) {
		if row.Ref == nil || len(row.Zipped)+len(row.Tail) != 0 || row.Ref.Size < 256<<10 {
			t.Fatalf("row: ref %v, %d bytes inline", row.Ref, len(row.Zipped))
		}
		got, head, err := store.Load(t.Context(), "run-a")
		if err != nil || head != 7 {
			t.Fatalf("head %d, %v", head, err)
		}
		same(t, got, want)
	})
	t.Run("PERS-3 a damaged object is as good as none", func(t *testing.T) {
		st.DamageBlob(row.Ref.SHA256, []byte("junk"))
		if _, _, ok := store.Latest(t.Context(), "run-a"); ok {
			t.Error("a damaged object was taken")
		}
	})
}

type row struct {
	Head     uint64        `json:"head"`
	Sequence uint64        `json:"sequence"`
	Ref      *events.Ref   `json:"ref,omitempty"`
	Zipped   []byte        `json:"zipped,omitempty"`
	Codec    snapshot.Form `json:"codec"`
	// Tail is what stands behind the line break.
	Tail []byte `json:"-"`
}

// body is the stored state, wherever it stands.
func (r *row) body() *[]byte {
	if r.Codec == snapshot.FormJSON {
		return &r.Zipped
	}
	return &r.Tail
}

func (r row) put(t *testing.T, store *snapshot.Store, id string) {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Tail) > 0 {
		b = append(append(b, '\n'), r.Tail...)
	}
	if err := store.KV.Put(t.Context(), snapshot.Key(id), b); err != nil {
		t.Fatal(err)
	}
}

func rowOf(t *testing.T, store *snapshot.Store, id string) row {
	t.Helper()
	b, err := store.KV.Get(t.Context(), snapshot.Key(id))
	if err != nil {
		t.Fatal(err)
	}
	line, tail, _ := bytes.Cut(b, []byte{'\n'})
	r := row{Tail: tail}
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestDamaged proves that a snapshot that is not what it says is as good as none.
func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		t.Run(string(form), func(t *testing.T) { t.Parallel(); testDamaged(t, form) })
	}
}

func testDamaged(t *testing.T, form snapshot.Form) {
	for name, spoil := range map[string]func(r *row){
		"half of it":         func(r *row) { *r.body() = (*r.body())[:len(*r.body())/2] },
		"a bit turned":       func(r *row) { (*r.body())[len(*r.body())/2] ^= 1 },
		"nothing":            func(r *row) { *r.body() = nil },
		"foreign bytes":      func(r *row) { *r.body() = []byte("junk") },
		"another sequence":   func(r *row) { r.Sequence++ },
		"an object not kept": func(r *row) { r.Ref = &events.Ref{SHA256: strings.Repeat("0", 64), Size: 3} },
		"another codec":      func(r *row) { r.Codec = "zstd" },
	} {
		t.Run("PERS-3 "+name, func(t *testing.T) {
			t.Parallel()
			_, store := newStore(t, form)
			if err := store.Save(t.Context(), history("run-a", "hello"), 3); err != nil {
				t.Fatal(err)
			}
			r := rowOf(t, store, "run-a")
			spoil(&r)
			r.put(t, store, "run-a")
			if s, head, ok := store.Latest(t.Context(), "run-a"); ok || head != 0 || s.Sequence != 0 {
				t.Errorf("taken: head %d, sequence %d", head, s.Sequence)
			}
		})
	}
	t.Run("PERS-3 a row that is not JSON", func(t *testing.T) {
		t.Parallel()
		_, store := newStore(t, form)
		if err := store.KV.Put(t.Context(), snapshot.Key("run-a"), []byte("{")); err != nil {
			t.Fatal(err)
		}
		if _, _, ok := store.Latest(t.Context(), "run-a"); ok {
			t.Error("taken")
		}
	})
	t.Run("PERS-3 the snapshot of another run", func(t *testing.T) {
		t.Parallel()
		_, store := newStore(t, form)
		if err := store.Save(t.Context(), history("run-a", "hello"), 3); err != nil {
			t.Fatal(err)
		}
		b, err := store.KV.Get(t.Context(), snapshot.Key("run-a"))
		if err != nil {
			t.Fatal(err)
		}
		if err := store.KV.Put(t.Context(), snapshot.Key("run-b"), b); err != nil {
			t.Fatal(err)
		}
		if _, _, ok := store.Latest(t.Context(), "run-b"); ok {
			t.Error("taken")
		}
	})
}
