package at_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/archive/at"
	"github.com/inspan/inspan/internal/archive/at/s3test"
	"github.com/inspan/inspan/internal/kernel"
)

// TestPlace is what an archive asks of a place. None of it runs beside other tests: the address is in the environment.
func TestPlace(t *testing.T) {
	kinds := map[string]func(t *testing.T) archive.Place{
		"a folder": func(t *testing.T) archive.Place { return archive.Folder(t.TempDir()) },
		"a bucket": func(t *testing.T) archive.Place { return place(t) },
	}
	for name, open := range kinds {
		t.Run("EVT-9 in "+name, func(t *testing.T) { exam(t, open(t)) })
	}
}

func place(t *testing.T) archive.Place {
	t.Helper()
	_, where := s3test.Serve(t)
	return at.Bucket(t, where)
}

func exam(t *testing.T, p archive.Place) {
	ctx := t.Context()
	if _, _, err := p.Read(ctx, "runs/a/r.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read nothing: got %v, want fs.ErrNotExist", err)
	}
	if _, err := p.Stat(ctx, "runs/a/r.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat nothing: got %v, want fs.ErrNotExist", err)
	}
	if got := listed(t, p, ""); len(got) > 0 {
		t.Errorf("list nothing: got %q", got)
	}
	if err := p.Remove(ctx, "runs/a/r.json"); err != nil {
		t.Errorf("remove nothing: got %v, want no error", err)
	}
	for _, name := range []string{"runs/a/r.json", "runs/a/s.json", "runs/b/r.json", "objects/ab/abcd", "objects/ab/abce", "runs.json"} {
		if _, err := p.Write(ctx, name, []byte(name), ""); err != nil {
			t.Fatalf("write %s: %v", name, err)
		}
	}
	b, _, err := p.Read(ctx, "runs/b/r.json")
	if err != nil || string(b) != "runs/b/r.json" {
		t.Errorf("read: got %q, %v", b, err)
	}
	if s, err := p.Stat(ctx, "objects/ab/abcd"); err != nil || s.Size != 15 || s.Age.Minutes() > 10 {
		t.Errorf("stat: got %+v, %v; want 15 bytes", s, err)
	}
	for prefix, want := range map[string]int{"": 6, "runs/": 3, "runs/a/": 2, "objects/ab/": 2, "none/": 0} {
		if got := listed(t, p, prefix); len(got) != want {
			t.Errorf("list %q: got %q, want %d", prefix, got, want)
		}
	}
	end := errors.New("enough")
	if err := p.List(ctx, "runs/", func(string, archive.Stat) error { return end }); !errors.Is(err, end) {
		t.Errorf("a list whose visit fails: got %v, want its error", err)
	}
	if err := p.Remove(ctx, "runs/a/r.json"); err != nil {
		t.Errorf("remove: %v", err)
	}
	if got := listed(t, p, "runs/a/"); !slices.Equal(got, []string{"runs/a/s.json"}) {
		t.Errorf("after one was removed: got %q", got)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := p.List(ended, "", func(string, archive.Stat) error { return nil }); err == nil {
		t.Error("list with an ended context: want an error")
	}
	if p.Shared() {
		versions(t, p)
	}
}

// versions is what programs rely on that share a place.
func versions(t *testing.T, p archive.Place) {
	ctx := t.Context()
	if err := p.Probe(ctx); err != nil {
		t.Errorf("probe: %v", err)
	}
	first, err := p.Write(ctx, "v.json", []byte("1"), "")
	if err != nil || first == "" {
		t.Fatalf("write: got version %q, %v", first, err)
	}
	if _, err := p.Write(ctx, "v.json", []byte("2"), ""); !errors.Is(err, archive.ErrChanged) {
		t.Errorf("write what must not be there and is: got %v, want ErrChanged", err)
	}
	second, err := p.Write(ctx, "v.json", []byte("3"), first)
	if err != nil || second == first {
		t.Errorf("write over the version that is there: got version %q, %v", second, err)
	}
	if _, err := p.Write(ctx, "v.json", []byte("4"), first); !errors.Is(err, archive.ErrChanged) {
		t.Errorf("write over a version that was: got %v, want ErrChanged", err)
	}
	b, read, err := p.Read(ctx, "v.json")
	if err != nil || string(b) != "3" || read != second {
		t.Errorf("read: got %q, version %q, %v; want 3 and %q", b, read, err, second)
	}
	if _, err := p.Write(ctx, "v.json", []byte("5"), archive.Any); err != nil {
		t.Errorf("write over anything: %v", err)
	}
	if err := p.Remove(ctx, "v.json"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write(ctx, "v.json", []byte("6"), second); !errors.Is(err, archive.ErrChanged) {
		t.Errorf("write over a version that was removed: got %v, want ErrChanged", err)
	}
}

func listed(t *testing.T, p archive.Place, prefix string) (all []string) {
	t.Helper()
	if err := p.List(t.Context(), prefix, func(name string, _ archive.Stat) error {
		all = append(all, name)
		return nil
	}); err != nil {
		t.Errorf("list %q: %v", prefix, err)
	}
	slices.Sort(all)
	return all
}

func TestRefuse(t *testing.T) {
	t.Run("EVT-9 names of buckets that are none", func(t *testing.T) {
		s3test.Serve(t)
		for _, where := range []string{"s3://", "s3:///x", "s3://b/../c", "s3://b/a//c", "s3://b?x=1", "s3://key:secret@b/c"} {
			if _, err := at.Create(where); err == nil || strings.Contains(err.Error(), "lovelace") {
				t.Errorf("%s: got %v, want a refusal", where, err)
			}
		}
		t.Setenv("AWS_ENDPOINT_URL", "localhost:9000")
		t.Setenv("AWS_ENDPOINT_URL_S3", "")
		if _, err := at.Create("s3://b/c"); err == nil || !strings.Contains(err.Error(), "AWS_ENDPOINT_URL") {
			t.Errorf("an address without a scheme: got %v, want a refusal that names the variable", err)
		}
	})
	t.Run("EVT-9 a bucket that is not there, keys that are refused, and an archive that is none", func(t *testing.T) {
		_, where := s3test.Serve(t)
		if _, err := at.Open(t.Context(), where); !errors.Is(err, kernel.ErrNotFound) {
			t.Errorf("open nothing: got %v, want kernel.ErrNotFound", err)
		}
		d, err := at.Create("s3://no-such-bucket-anywhere/x")
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "there is no bucket") {
			t.Errorf("no bucket: got %v", err)
		}
		t.Setenv("AWS_ACCESS_KEY_ID", "EVE")
		if d, err = at.Create(where); err != nil {
			t.Fatal(err)
		}
		err = d.Prepare(t.Context())
		if err == nil || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") || strings.Contains(err.Error(), "lovelace") {
			t.Errorf("wrong keys: got %v, want the variables to set and no secret", err)
		}
	})
	t.Run("EVT-9 storage that ignores conditions", func(t *testing.T) {
		s, where := s3test.Serve(t)
		if s == nil {
			t.Skip("a server of others has no such switch")
		}
		s.Careless()
		d, err := at.Create(where)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "ignores If-None-Match") {
			t.Errorf("got %v, want a refusal", err)
		}
	})
}
