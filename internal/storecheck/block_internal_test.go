package storecheck

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// written is a record as the server writes it.
func written(k *block, seq uint64, subject, headers, message string) []byte {
	body := subject
	length := uint32(headBytes + len(subject) + len(headers) + len(message) + sumBytes) //nolint:gosec // short texts
	if headers != "" {
		body += string(binary.LittleEndian.AppendUint32(nil, uint32(len(headers)))) + headers //nolint:gosec // short texts
		length = (length + 4) | hasHeaders
	}
	b := binary.LittleEndian.AppendUint32(nil, length)
	b = binary.LittleEndian.AppendUint64(b, seq)
	b = binary.LittleEndian.AppendUint64(b, 1_700_000_000)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(subject))) //nolint:gosec // short texts
	b = append(append(b, body+message...), make([]byte, sumBytes)...)
	got := k.sum(b, len(b), len(subject), headers != "")
	copy(b[len(b)-sumBytes:], got[:])
	return b
}

const headers = "NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 7\r\n\r\n"

// some is a block of n records, with where they begin.
func some(k *block, from uint64, n int) (b []byte, at []int) {
	for i := range n {
		at = append(at, len(b))
		seq := from + uint64(i) //nolint:gosec // counts up
		b = append(b, written(k, seq, "station.s.run.r.evt.run.created", headers, fmt.Sprintf(`{"sequence":%d}`, seq))...)
	}
	return b, at
}

var logSubjects = []string{"station.s.run.*.evt.*.*"}

func TestBlock(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-2 each single bit of a record is turned back, whichever it is", func(t *testing.T) {
		t.Parallel()
		k := newBlock("LOG_s", 1, logSubjects)
		b, at := some(k, 1, 5)
		for i := at[2]; i < at[3]; i++ {
			for bit := range 8 {
				damaged := bytes.Clone(b)
				damaged[i] ^= 1 << bit
				r := k.read(damaged, 0)
				if r.healed != 1 || len(r.gaps) != 0 || !bytes.Equal(r.b, b) {
					t.Fatalf("byte %d bit %d: healed %d, gaps %v", i-at[2], bit, r.healed, r.gaps)
				}
			}
		}
	})
	t.Run("SAFE-2 damage beyond one bit costs the record that has it, and none behind it", func(t *testing.T) {
		t.Parallel()
		k := newBlock("LOG_s", 1, logSubjects)
		b, at := some(k, 1, 5)
		rapid.Check(t, func(t *rapid.T) {
			damaged := bytes.Clone(b)
			i := rapid.IntRange(at[2], at[3]-9).Draw(t, "byte")
			for j := range 8 {
				damaged[i+j] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
			}
			r := k.read(damaged, 0)
			if len(r.gaps) != 1 || r.gaps[0].after != 2 || r.gaps[0].before != 4 || fmt.Sprint(r.seqs) != "[1 2 4 5]" {
				t.Fatalf("%+v, positions %v", r.gaps, r.seqs)
			}
		})
	})
	t.Run("SAFE-2 a message without headers under a subject that the stream does not take is put right", func(t *testing.T) {
		t.Parallel()
		k := newBlock("IN_s", 1, []string{"station.s.task"})
		b := written(k, 1, "station.s.task", "", `{"agent":"a"}`)
		for bit := range 16 {
			damaged := bytes.Clone(b)
			damaged[atSubject+bit/8] ^= 1 << (bit % 8)
			if r := k.read(damaged, 0); !bytes.Equal(r.b, b) {
				t.Errorf("bit %d: %+v", bit, r.gaps)
			}
		}
	})
}

// TestChunk turns the bits of a part of an object, which has no headers and a subject of which the end is chosen by its
// writer.
func TestChunk(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"text": "plain text that could go on with the subject before it", "JSON": `[{"role":"user"}]`,
		"names": "abcdefghijklmnopqrstuvwxyz.abcdefghijklmnopqrstuvwxyz"} {
		t.Run("SAFE-2 each single bit of a part of an object is turned back without the digest of its file: "+name, func(t *testing.T) {
			t.Parallel()
			k := newBlock("OBJ_harness-files", 1, []string{"$O.harness-files.C.>", "$O.harness-files.M.>"})
			b := written(k, 1, "$O.harness-files.C.s37191V9mbGYnjLxehti3h", "", strings.Repeat(body, 10))
			for i := range b {
				for bit := range 8 {
					damaged := bytes.Clone(b)
					damaged[i] ^= 1 << bit
					if r := k.read(damaged, 0); r.healed != 1 || len(r.gaps) != 0 || !bytes.Equal(r.b, b) {
						t.Errorf("byte %d bit %d: healed %d, gaps %v", i, bit, r.healed, r.gaps)
					}
				}
			}
		})
	}
}

// TestBare turns the bits of the length of a subject whose end its writer chose, before a row without headers.
func TestBare(t *testing.T) {
	t.Parallel()
	k := newBlock("KV_harness-index", 1, []string{"$KV.harness-index.>"})
	for _, row := range []string{`{"status":"completed"}`, `"text"`, `[1]`} {
		t.Run("SAFE-2 a row without headers keeps its key and its value: "+row, func(t *testing.T) {
			t.Parallel()
			k := newBlock("KV_harness-index", 1, k.subjects)
			b := written(k, 1, "$KV.harness-index.run.r-1", "", row)
			for bit := range 16 {
				damaged := bytes.Clone(b)
				damaged[atSubject+bit/8] ^= 1 << (bit % 8)
				if r := k.read(damaged, 0); r.healed != 1 || !bytes.Equal(r.b, b) {
					t.Errorf("bit %d: healed %d, %+v: %q", bit, r.healed, r.gaps, r.b)
				}
			}
		})
	}
	t.Run("SAFE-2 messages that are no JSON are no damage", func(t *testing.T) {
		t.Parallel()
		for _, row := range []string{"plain", "{", "", "node-1", `x{"a":1}`} {
			b := written(k, 1, "$KV.harness-index.run.r-1", "", row)
			if r := k.read(bytes.Clone(b), 0); r.healed != 0 || len(r.gaps) != 0 || !bytes.Equal(r.b, b) {
				t.Errorf("%q: healed %d, %+v", row, r.healed, r.gaps)
			}
		}
	})
}

// store writes a store with one log and returns its marks.
func store(t testing.TB, b []byte, last uint64, clean bool) (dir, path string, m *Marks) {
	t.Helper()
	dir = t.TempDir()
	folder := filepath.Join(dir, "nats", "jetstream", "a", "streams", "LOG_s")
	meta := []byte(`{"name":"LOG_s","subjects":["station.s.run.*.evt.*.*"]}`)
	h := newHash("LOG_s")
	_, _ = h.Write(meta)
	path = filepath.Join(folder, "msgs", "1.blk")
	for p, text := range map[string][]byte{filepath.Join(folder, metaFile): meta, filepath.Join(folder, metaSum): fmt.Appendf(nil, "%x", h.Sum(nil)), path: b} {
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		t.Fatal(err)
	}
	return dir, path, &Marks{Clean: clean, Streams: map[string]Stream{"a/LOG_s": {First: 1, Last: last, Messages: last}}, Files: map[string]File{rel: FileOf(b)}}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	k := newBlock("LOG_s", 1, logSubjects)
	b, at := some(k, 1, 6)
	run := func(t testing.TB, dir string, m *Marks) Result {
		t.Helper()
		r, err := Run(Config{Store: dir, Streams: "nats", Marks: m, Now: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	t.Run("SAFE-2 a crash is no damage: whatever the last write left, nothing is reported as lost", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(rt *rapid.T) {
			marked := rapid.IntRange(0, 5).Draw(rt, "marked")
			end := rapid.IntRange(len(b[:at[marked]]), len(b)).Draw(rt, "written")
			left := bytes.Clone(b[:end])
			if rapid.Bool().Draw(rt, "zeros") { // a file that was made longer before its bytes came
				left = append(left, make([]byte, rapid.IntRange(1, 40).Draw(rt, "n"))...)
			}
			dir, _, _ := store(t, left, 0, false)
			_, _, m := store(t, b[:at[marked]], uint64(marked), false) //nolint:gosec // small
			if r := run(t, dir, m); r.Damaged() {
				rt.Fatalf("%s", r.Error())
			}
		})
	})
	t.Run("SAFE-2 an end that is missing is reported with its positions", func(t *testing.T) {
		t.Parallel()
		for _, cut := range []int{at[4], at[4] + 3, at[5] - 1} {
			dir, _, _ := store(t, b[:cut], 0, true)
			_, _, m := store(t, b, 6, true)
			r := run(t, dir, m)
			if lost := r.Lost(); len(lost) != 1 || lost[0].From != 5 || lost[0].To != 6 {
				t.Errorf("cut at %d: %+v", cut, r.Findings)
			}
		}
	})
	t.Run("SAFE-2 what cannot be repaired is cut out, with its run, and a copy is left", func(t *testing.T) {
		t.Parallel()
		dir, path, m := store(t, b, 6, true)
		damaged := bytes.Clone(b)
		copy(damaged[at[3]-30:], "????????")
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		r := run(t, dir, m)
		if lost := r.Lost(); len(lost) != 1 || lost[0].From != 3 || lost[0].To != 3 || strings.Join(lost[0].Runs, "") != "r" || lost[0].Messages() != 1 {
			t.Errorf("%+v", r.Findings)
		}
		copies, err := filepath.Glob(filepath.Join(dir, CopiesFolder, "*", "*"))
		if err != nil || len(copies) != 1 {
			t.Fatalf("%v %v", copies, err)
		}
		if kept, err := os.ReadFile(copies[0]); err != nil || !bytes.Equal(kept, damaged) {
			t.Errorf("the copy is not the file as it was: %v", err)
		}
		if id := r.ID(); len(id) != 12 || id != r.ID() {
			t.Errorf("id %q", id)
		}
	})
	t.Run("SAFE-2 a store that was worked on by a program that keeps no marks is not damaged", func(t *testing.T) {
		t.Parallel()
		dir, _, _ := store(t, b, 0, true)
		_, _, m := store(t, b[:at[2]], 2, true)
		if r := run(t, dir, m); len(r.Findings) > 0 {
			t.Errorf("%+v", r.Findings)
		}
	})
	t.Run("SAFE-2 a store without marks is checked by its own checksums alone", func(t *testing.T) {
		t.Parallel()
		dir, _, _ := store(t, b, 0, true)
		if r := run(t, dir, nil); len(r.Findings) > 0 || len(r.Back) > 0 {
			t.Errorf("%+v", r)
		}
	})
}

func TestMarks(t *testing.T) {
	t.Parallel()
	one := Marks{Station: "s", At: time.Unix(1, 0).UTC(), Streams: map[string]Stream{"LOG_s": {Last: 1}}}
	two := Marks{Station: "s", At: time.Unix(2, 0).UTC(), Streams: map[string]Stream{"LOG_s": {Last: 2}}}
	t.Run("SAFE-2 marks survive damage to either copy, bit by bit", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(rt *rapid.T) {
			dir := t.TempDir()
			if err := two.Save(dir); err != nil {
				rt.Fatal(err)
			}
			path := filepath.Join(dir, rapid.SampledFrom(marksFiles).Draw(rt, "copy"))
			b, err := os.ReadFile(path)
			if err != nil {
				rt.Fatal(err)
			}
			b[rapid.IntRange(0, len(b)-2).Draw(rt, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				rt.Fatal(err)
			}
			m, damaged, err := Load(dir)
			if err != nil || m == nil || m.Streams["LOG_s"].Last != 2 || len(damaged) != 1 {
				rt.Fatalf("%+v %v %v", m, damaged, err)
			}
		})
	})
	t.Run("SAFE-2 marks are those of before or after a write, whenever a crash comes", func(t *testing.T) {
		t.Parallel()
		whole := t.TempDir()
		if err := two.Save(whole); err != nil {
			t.Fatal(err)
		}
		for crash := range 5 { // in the first copy's part file, before its rename, between the copies, in the second, after it
			dir := t.TempDir()
			if err := one.Save(dir); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(filepath.Join(whole, marksFiles[0]))
			if err != nil {
				t.Fatal(err)
			}
			put := func(name string, b []byte) {
				if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			put(".part-1", b[:len(b)/2])
			if crash >= 2 {
				put(marksFiles[0], b)
			}
			if crash >= 4 {
				put(marksFiles[1], b)
			}
			m, damaged, err := Load(dir)
			want := uint64(1)
			if crash >= 2 {
				want = 2
			}
			if err != nil || len(damaged) > 0 || m.Streams["LOG_s"].Last != want {
				t.Errorf("crash %d: %+v %v %v", crash, m, damaged, err)
			}
		}
	})
	t.Run("SAFE-2 what a stream may lose is no alarm, and what a log may never lose is one", func(t *testing.T) {
		t.Parallel()
		was := Stream{First: 1, Last: 9, Messages: 9}
		if f := was.Lacks("IN_s", "", Stream{First: 10, Last: 9, Deleted: 3}); len(f) > 0 {
			t.Errorf("%+v", f)
		}
		for _, now := range []Stream{{First: 1, Last: 8, Messages: 8}, {First: 2, Last: 9, Messages: 8}, {First: 1, Last: 12, Messages: 11, Deleted: 1}} {
			if f := was.Lacks("LOG_s", "", now); len(f) != 1 || f[0].Outcome != Lost {
				t.Errorf("%+v: %+v", now, f)
			}
		}
	})
	t.Run("PERS-16 SAFE-2 the views are made again also where their bucket has another name, and no other stream is then taken for them", func(t *testing.T) {
		t.Parallel()
		was := Stream{First: 1, Last: 9, Messages: 9}
		for _, c := range []struct {
			stream, views string
			want          Outcome
		}{{ViewsStream, "", Rebuilt}, {"KV_team", "KV_team", Rebuilt}, {"KV_team", "", Lost}, {ViewsStream, "KV_team", Lost}} {
			f := was.Lacks(c.stream, c.views, Stream{First: 1, Last: 8, Messages: 8})
			if len(f) != 1 || f[0].Outcome != c.want || f[0].Views(c.views) != (c.want == Rebuilt) {
				t.Errorf("%+v: got %+v", c, f)
			}
		}
	})
}

// BenchmarkRun checks a log of 64 MiB, as it is after an ordinary end and after a crash.
func BenchmarkRun(b *testing.B) {
	k := newBlock("LOG_s", 1, logSubjects)
	var text []byte
	seq := uint64(1)
	for ; len(text) < 64<<20; seq++ {
		text = append(text, written(k, seq, "station.s.run.r.evt.run.created", headers, strings.Repeat("x", 1200))...)
	}
	for name, known := range map[string]bool{"ended": true, "crashed": false} {
		b.Run(name, func(b *testing.B) {
			dir, _, m := store(b, text, seq-1, true)
			if !known {
				m.Clean, m.Files = false, nil
			}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if r, err := Run(Config{Store: dir, Streams: "nats", Marks: m, Now: time.Now()}); err != nil || r.Damaged() {
					b.Fatal(err, r.Error())
				}
			}
		})
	}
}
