package snapshot_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// document is a state as JSON.
func document(t testing.TB, s run.State) []byte {
	t.Helper()
	b, err := run.Codec{}.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func encoded(t testing.TB, s run.State) []byte {
	t.Helper()
	b, err := snapshot.Binary{}.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// prose is text by chance from a vocabulary of 2,000 words, as compressible as people's and programs' text is.
func prose(r *rand.Rand, size int) string {
	var b strings.Builder
	for b.Len() < size {
		word := rand.New(rand.NewPCG(uint64(r.IntN(2000)), 7))
		for range 2 + word.IntN(9) {
			b.WriteByte(byte('a' + word.IntN(26)))
		}
		b.WriteByte(" \n"[r.IntN(30)/29])
	}
	return b.String()[:size]
}

// long is the state of a run after that many turns with one call each: about 1.9 kB of JSON for a turn.
func long(turns int) run.State {
	r := rand.New(rand.NewPCG(1, 2))
	b := runtest.New("demo", "run-a")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
	for n := range turns {
		input, _ := json.Marshal(map[string]string{"command": prose(r, 120)}) // text is always JSON
		asked := runtest.Asked(n+1, 1, "bash", string(input))
		ref := runtest.Ref("a", asked.ID, "bash")
		b.Append(runtest.Turn(n+1, "a", prose(r, 180), asked), runtest.CallYes(ref, "once"), runtest.CallBegun(ref, 1),
			runtest.CallDone(ref, b.State().Sequence+3, prose(r, 1000)))
	}
	return b.State()
}

func TestBinary(t *testing.T) {
	t.Parallel()
	t.Run("EVT-5 a long run is written in less than a third of its JSON and read back with nothing lost", func(t *testing.T) {
		t.Parallel()
		want := long(200)
		b := encoded(t, want)
		if plain := len(document(t, want)); 3*len(b) > plain {
			t.Errorf("%d bytes for %d bytes of JSON", len(b), plain)
		}
		got, err := snapshot.Binary{}.Decode(b)
		if err != nil || !reflect.DeepEqual(got, want) || !bytes.Equal(document(t, got), document(t, want)) {
			t.Errorf("the state read is not the state written (%v)", err)
		}
		if !bytes.Equal(encoded(t, got), b) {
			t.Error("equal states gave other bytes")
		}
	})
	t.Run("EVT-5 EVT-8 whichever bit is turned, the bytes are an error and no state", func(t *testing.T) {
		t.Parallel()
		b := encoded(t, history("run-a", "hello"))
		for i := range len(b) * 8 {
			bad := bytes.Clone(b)
			bad[i/8] ^= 1 << (i % 8)
			refused(t, bad, fmt.Sprintf("bit %d", i))
		}
	})
	t.Run("EVT-5 EVT-8 wherever it is cut or goes on, the bytes are an error and no state", func(t *testing.T) {
		t.Parallel()
		b := encoded(t, history("run-a", "hello"))
		for n := range b {
			refused(t, b[:n], fmt.Sprintf("the first %d bytes", n))
		}
		refused(t, append(bytes.Clone(b), 0), "a byte more")
		refused(t, append(bytes.Clone(b), b...), "twice")
	})
	for name, bytes := range map[string][]byte{
		"nothing": nil, "JSON": document(t, history("run-a", "hello")), "text": []byte(strings.Repeat("ISNP", 40)),
		"a header alone": snapshot.Seal(make([]byte, snapshot.HeaderSize)),
	} {
		t.Run("EVT-5 EVT-8 "+name+" is no binary state", func(t *testing.T) {
			t.Parallel()
			refused(t, bytes, name)
		})
	}
	t.Run("EVT-5 EVT-7 another form or schema is named beside the one that is supported", func(t *testing.T) {
		t.Parallel()
		b := encoded(t, history("run-a", "hello"))
		b[4] = 2
		var form *snapshot.FormError
		if _, err := (snapshot.Binary{}).Decode(snapshot.Seal(b)); !errors.As(err, &form) || form.Found != 2 || form.Supported != 1 {
			t.Errorf("form 2: got %v, want a FormError", err)
		}
		b[4] = 1
		binary.BigEndian.PutUint32(b[5:], 9)
		var version *run.VersionError
		if _, err := (snapshot.Binary{}).Decode(snapshot.Seal(b)); !errors.As(err, &version) || version.Found != 9 {
			t.Errorf("schema 9: got %v, want a VersionError", err)
		}
	})
	t.Run("EVT-5 EVT-6 a state of an earlier schema is lifted through the migrations of the codec", func(t *testing.T) {
		t.Parallel()
		doc := bytes.Replace(document(t, history("run-a", "hello")), []byte(`"schemaVersion":1`), []byte(`"schemaVersion":0`), 1)
		b := snapshot.Pack(doc, 0)
		var version *run.VersionError
		if _, err := (snapshot.Binary{}).Decode(b); !errors.As(err, &version) {
			t.Errorf("without a migration: got %v, want a VersionError", err)
		}
		lifted := false
		codec := run.Codec{Migrations: map[int]run.Migration{0: func(d map[string]json.RawMessage) (map[string]json.RawMessage, error) {
			lifted = true
			return d, nil
		}}}
		got, err := snapshot.Binary{Codec: codec}.Decode(b)
		if err != nil || !lifted {
			t.Fatalf("lifted %v, %v", lifted, err)
		}
		same(t, got, history("run-a", "hello"))
	})
	t.Run("EVT-5 SAFE-12 a small frame that says it is large is refused before it fills the memory", func(t *testing.T) {
		t.Parallel()
		b := snapshot.Pack(make([]byte, 8<<20), 1)
		binary.BigEndian.PutUint32(b[9:], 100) // and it would be eight megabytes
		refused(t, snapshot.Seal(b), "a frame larger than it says")
		binary.BigEndian.PutUint32(b[9:], 1<<31)
		refused(t, snapshot.Seal(b), "a length above the limit")
	})
}

func refused(t *testing.T, b []byte, what string) {
	t.Helper()
	s, err := snapshot.Binary{}.Decode(b)
	var form *snapshot.FormError
	if !errors.Is(err, run.ErrDamagedState) && !errors.As(err, &form) || !reflect.DeepEqual(s, run.State{}) {
		t.Fatalf("%s: got %v, want an error and no state", what, err)
	}
}

// FuzzBinary proves EVT-5 and SAFE-12: any bytes are a state or an error, also where the digest was made to fit, and a
// state that was read is the one that is written.
func FuzzBinary(f *testing.F) {
	sample, err := os.ReadFile("../../pkg/run/testdata/state_v1.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encoded(f, history("run-a", "hello")))
	f.Add(snapshot.Pack(sample, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= snapshot.HeaderSize {
			b = snapshot.Seal(bytes.Clone(b))
		}
		s, err := snapshot.Binary{}.Decode(b)
		if err != nil {
			return
		}
		again, err := snapshot.Binary{}.Decode(encoded(t, s))
		if err != nil || !bytes.Equal(document(t, again), document(t, s)) {
			t.Fatalf("not stable (%v)\n%s\n%s", err, document(t, again), document(t, s))
		}
	})
}

// BenchmarkForms writes and reads the state of a run of 200 turns as plain JSON and in both forms of a store; "bytes"
// is what is stored.
func BenchmarkForms(b *testing.B) {
	s := long(200)
	for _, form := range []struct {
		name   string
		encode func(run.State) ([]byte, error)
		decode func([]byte) (run.State, error)
	}{
		{"json", run.Codec{}.Encode, run.Codec{}.Decode},
		{"json+gzip", snapshot.EncodeJSON, snapshot.DecodeJSON},
		{"binary", snapshot.Binary{}.Encode, snapshot.Binary{}.Decode},
	} {
		stored, err := form.encode(s)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("write/"+form.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := form.encode(s); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(stored)), "bytes")
		})
		b.Run("read/"+form.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := form.decode(stored); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
