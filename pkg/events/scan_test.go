package events

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func samples(t testing.TB) [][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/*.json")
	if err != nil || len(names) < len(vocabulary) {
		t.Fatalf("%d samples, %v", len(names), err)
	}
	var out [][]byte
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		var f Event
		if err := json.Unmarshal(b, &f); err != nil {
			t.Fatal(err)
		}
		stored, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, stored)
	}
	return out
}

func TestScan(t *testing.T) {
	t.Parallel()
	t.Run("EVT-13 the fast way reads every kind as the ordinary way does", func(t *testing.T) {
		t.Parallel()
		for _, b := range samples(t) {
			fast, ok := scan(b)
			if !ok {
				t.Errorf("not read fast: %s", b)
			}
			agree(t, b, fast)
			var d struct {
				Data struct {
					Step string `json:"step_id"`
					Call string `json:"tool_id"`
				}
			}
			if err := json.Unmarshal(b, &d); err != nil {
				t.Fatal(err)
			}
			if got, err := AboutOf(b); err != nil || got.Step != d.Data.Step || got.Call != d.Data.Call || got.Sequence != fast.Sequence {
				t.Errorf("about %+v, %v: %s", got, err, b)
			}
		}
	})
}

func agree(t *testing.T, b []byte, fast Event) {
	t.Helper()
	var slow Event
	if err := json.Unmarshal(b, &slow); err != nil {
		if json.Valid(fast.Data) {
			t.Fatalf("read fast, but not at all the ordinary way (%v): %s", err, b)
		}
		return // Payload finds it
	}
	if !fast.Time.Equal(slow.Time) {
		t.Fatalf("time %s, want %s", fast.Time, slow.Time)
	}
	fast.Time = slow.Time
	if !reflect.DeepEqual(fast, slow) {
		t.Fatalf("fast %+v\nslow %+v", fast, slow)
	}
}

func FuzzScan(f *testing.F) {
	for _, b := range samples(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if fast, ok := scan(b); ok {
			agree(t, b, fast)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	for _, stored := range samples(b) {
		f, _ := scan(stored)
		k, _ := f.Kind()
		b.Run(string(k)+"/fast", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Read(stored); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(string(k)+"/ordinary", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f, err := Decode(stored)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := f.Payload(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAbout(b *testing.B) {
	all := samples(b)
	b.ReportAllocs()
	for b.Loop() {
		for _, stored := range all {
			if _, err := AboutOf(stored); err != nil {
				b.Fatal(err)
			}
		}
	}
}
