package kerneltest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// damager overwrites the stored bytes of an object.
type damager = func(t *testing.T, ref events.Ref, data []byte)

// Blobs examines an object store. open is called once; damage overwrites the stored bytes of an object past the port,
// as a broken disk or an intruder would.
func Blobs(t *testing.T, open func(t *testing.T) (b kernel.Blobs, damage func(t *testing.T, ref events.Ref,
	data []byte))) {
	t.Helper()
	b, damage := open(t)

	for _, part := range []struct {
		name string
		exam func(*testing.T, kernel.Blobs, damager)
	}{
		{"PERS-19 SAFE-15 what was put is got, small and large", blobRoundTrip},
		{"PERS-19 putting the same again is harmless, also at the same time", blobAgain},
		{"PERS-19 what was never put is not found", blobNever},
		{"SAFE-15 SAFE-12 a name that is no digest gives an error and no bytes", blobNoDigest},
		{"SAFE-15 damaged bytes are an error and are never handed out", blobDamaged},
		{"SAFE-15 a reference of the wrong size is an error", blobWrongSize},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.exam(t, b, damage)
		})
	}
}

func blobRoundTrip(t *testing.T, b kernel.Blobs, _ damager) {
	for _, size := range []int{0, 1, 1 << 10, 300 << 10, 3 << 20} {
		data := bytes.Repeat([]byte(unique("b")), size/8+1)[:size]
		ref, err := b.Put(within(t), "text/plain", data)
		if err != nil {
			t.Fatalf("put %d bytes: %v", size, err)
		}
		sum := sha256.Sum256(data)
		if want := (events.Ref{SHA256: hex.EncodeToString(sum[:]), Size: int64(size), Type: "text/plain"}); ref != want {
			t.Fatalf("put %d bytes: got the reference %+v, want %+v", size, ref, want)
		}
		got, err := b.Get(within(t), ref)
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("get %d bytes: got %d bytes, %v", size, len(got), err)
		}
	}
}

func blobAgain(t *testing.T, b kernel.Blobs, _ damager) {
	data := []byte(unique("again"))
	ctx := within(t)
	refs := make([]events.Ref, 8)
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range refs {
		wg.Go(func() { refs[i], errs[i] = b.Put(ctx, "text/plain", data) })
	}
	wg.Wait()
	for i := range refs {
		if errs[i] != nil || refs[i] != refs[0] {
			t.Fatalf("put %d: got %+v, %v; want %+v", i, refs[i], errs[i], refs[0])
		}
	}
	if got, err := b.Get(ctx, refs[0]); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("get: got %q, %v", got, err)
	}
}

func blobNever(t *testing.T, b kernel.Blobs, _ damager) {
	sum := sha256.Sum256([]byte(unique("never")))
	got, err := b.Get(within(t), events.Ref{SHA256: hex.EncodeToString(sum[:]), Size: 5})
	if !errors.Is(err, kernel.ErrNotFound) || got != nil {
		t.Errorf("got %d bytes, %v; want ErrNotFound", len(got), err)
	}
}

func blobNoDigest(t *testing.T, b kernel.Blobs, _ damager) {
	for _, name := range []string{"", "..", "../../etc/passwd", "abc", ">", "a.*"} {
		if got, err := b.Get(within(t), events.Ref{SHA256: name, Size: 1}); err == nil || got != nil {
			t.Errorf("get %q: got %d bytes, %v; want an error", name, len(got), err)
		}
	}
}

func blobDamaged(t *testing.T, b kernel.Blobs, damage damager) {
	data := []byte(unique("sound"))
	ref, err := b.Put(within(t), "text/plain", data)
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	for _, bad := range [][]byte{[]byte(unique("other")), data[:4], {}} {
		damage(t, ref, bad)
		got, err := b.Get(within(t), ref)
		if err == nil || got != nil {
			t.Errorf("get of an object of %d other bytes: got %d bytes, %v; want an error", len(bad), len(got), err)
		}
	}
}

func blobWrongSize(t *testing.T, b kernel.Blobs, _ damager) {
	ref, err := b.Put(within(t), "text/plain", []byte(unique("size")))
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	ref.Size++
	if got, err := b.Get(within(t), ref); err == nil || got != nil {
		t.Errorf("got %d bytes, %v; want an error", len(got), err)
	}
}

// Shelf examines a bucket. open is called once.
func KV(t *testing.T, open func(t *testing.T) kernel.KV) {
	t.Helper()
	s := open(t)

	for _, part := range []struct {
		name string
		exam func(*testing.T, kernel.KV)
	}{
		{"PERS-19 a value put is got, the last one wins", kvLastWins},
		{"LIFE-9 a key that is not there is not found", kvNotFound},
		{"PERS-19 a deleted key is gone and can be put again", kvDeleted},
		{"DEPL-2 of those who create a key one succeeds, and its value stays", kvCreate},
		{"LIFE-8 of those who swap a value one succeeds, and who is behind changes nothing", kvSwap},
		{"LIFE-8 keys are listed by prefix, without the deleted ones", kvKeys},
		{"EVT-4 a value is not shared with its reader or writer", kvCopies},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.exam(t, s)
		})
	}
}

func kvLastWins(t *testing.T, s kernel.KV) {
	key := unique("k") + ".snapshot"
	for i := range 5 {
		value := fmt.Appendf(nil, "value %d", i)
		if err := s.Put(within(t), key, value); err != nil {
			t.Fatalf("put: %v", err)
		}
		if got, err := s.Get(within(t), key); err != nil || !bytes.Equal(got, value) {
			t.Fatalf("get: got %q, %v; want %q", got, err, value)
		}
	}
}

func kvNotFound(t *testing.T, s kernel.KV) {
	if _, err := s.Get(within(t), unique("k")); !errors.Is(err, kernel.ErrNotFound) {
		t.Errorf("get: got %v, want ErrNotFound", err)
	}
	if err := s.Delete(within(t), unique("k")); err != nil {
		t.Errorf("delete: got %v, want no error: it is gone already", err)
	}
}

func kvDeleted(t *testing.T, s kernel.KV) {
	key := unique("k")
	put := func(v string) {
		if err := s.Put(within(t), key, []byte(v)); err != nil {
			t.Fatalf("put: %v", err)
		}
	}
	put("one")
	if err := s.Delete(within(t), key); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if got, err := s.Get(within(t), key); !errors.Is(err, kernel.ErrNotFound) {
		t.Fatalf("get after delete: got %q, %v; want ErrNotFound", got, err)
	}
	put("two")
	if got, err := s.Get(within(t), key); err != nil || string(got) != "two" {
		t.Fatalf("get: got %q, %v; want two", got, err)
	}
}

func kvCreate(t *testing.T, s kernel.KV) {
	key := unique("k") + ".first"
	ctx := within(t)
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = s.Create(ctx, key, fmt.Append(nil, i)) })
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner >= 0:
			t.Fatalf("creators %d and %d both succeeded", winner, i)
		case err == nil:
			winner = i
		case !errors.Is(err, kernel.ErrExists):
			t.Fatalf("creator %d: got %v, want ErrExists", i, err)
		}
	}
	if got, err := s.Get(ctx, key); winner < 0 || err != nil || string(got) != fmt.Sprint(winner) {
		t.Fatalf("get: got %q, %v; want the value of creator %d", got, err, winner)
	}
	if err := s.Delete(ctx, key); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if err := s.Create(ctx, key, []byte("again")); err != nil {
		t.Errorf("create after delete: %v", err)
	}
}

func kvSwap(t *testing.T, s kernel.KV) {
	key := unique("k") + ".row"
	first, err := s.Swap(within(t), key, []byte("one"), 0)
	if err != nil {
		t.Fatalf("swap nothing for one: %v", err)
	}
	if _, err := s.Swap(within(t), key, []byte("another"), 0); !errors.Is(err, kernel.ErrExists) {
		t.Errorf("swap nothing for another: got %v, want ErrExists", err)
	}
	var won sync.Map
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if now, err := s.Swap(within(t), key, fmt.Append(nil, i), first); err == nil {
				won.Store(i, now)
			} else if !errors.Is(err, kernel.ErrExists) {
				t.Errorf("swap %d: got %v, want ErrExists", i, err)
			}
		})
	}
	wg.Wait()
	value, revision, err := s.Load(within(t), key)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	n := 0
	won.Range(func(i, now any) bool {
		if n++; string(value) != fmt.Sprint(i) || revision != now {
			t.Errorf("load: got %q at %d, want %v at %v", value, revision, i, now)
		}
		return true
	})
	if n != 1 {
		t.Errorf("%d of 8 swaps of the same revision succeeded, want 1", n)
	}
	if _, err := s.Swap(within(t), key, []byte("next"), revision); err != nil {
		t.Errorf("swap with the revision loaded: %v", err)
	}
	if _, _, err := s.Load(within(t), unique("k")); !errors.Is(err, kernel.ErrNotFound) {
		t.Errorf("load of nothing: got %v, want ErrNotFound", err)
	}
}

func kvKeys(t *testing.T, s kernel.KV) {
	base := unique("k")
	for _, k := range []string{".a.1", ".a.2", ".ab.1", ".b.1"} {
		if err := s.Put(within(t), base+k, []byte("v")); err != nil {
			t.Fatalf("put: %v", err)
		}
	}
	if err := s.Delete(within(t), base+".a.2"); err != nil {
		t.Fatalf("delete: %v", err)
	}
	for prefix, want := range map[string][]string{
		base + ".":   {base + ".a.1", base + ".ab.1", base + ".b.1"},
		base + ".a.": {base + ".a.1"},
		base + ".c.": {},
	} {
		got, err := s.Keys(within(t), prefix)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("keys of %q: got %q, %v; want %q", prefix, got, err, want)
		}
		if got, err = visited(t, s, prefix, nil); err != nil || !slices.Equal(got, want) {
			t.Errorf("each of %q: got %q, %v; want %q", prefix, got, err, want)
		}
	}
	end := errors.New("enough")
	if got, err := visited(t, s, base+".", end); !errors.Is(err, end) || len(got) == 0 {
		t.Errorf("each with a visit that fails: got %q, %v; want the error of the visit", got, err)
	}
	for _, prefix := range []string{base, "*.", base + ".*.", ">", ">.", "a..", ". "} {
		if got, err := s.Keys(within(t), prefix); err == nil {
			t.Errorf("keys of %q: got %q, want an error: it is no prefix of whole tokens", prefix, got)
		}
	}
	all, err := s.Keys(within(t), "")
	if err != nil || !slices.Contains(all, base+".b.1") {
		t.Errorf("keys of everything: got %d keys, %v; want %s among them", len(all), err, base+".b.1")
	}
}

// visited are the keys that Each visits, sorted, whose values are those of kvKeys; visit ends with err.
func visited(t *testing.T, s kernel.KV, prefix string, err error) ([]string, error) {
	var mu sync.Mutex
	var keys []string
	err = s.Each(within(t), prefix, func(key string, value []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if keys = append(keys, key); string(value) != "v" {
			t.Errorf("each of %q: key %s has the value %q, want v", prefix, key, value)
		}
		return err
	})
	slices.Sort(keys)
	return keys, err
}

func kvCopies(t *testing.T, s kernel.KV) {
	key, value := unique("k"), []byte("sound")
	if err := s.Put(within(t), key, value); err != nil {
		t.Fatalf("put: %v", err)
	}
	copy(value, "XXXXX")
	got, err := s.Get(within(t), key)
	if err != nil || string(got) != "sound" {
		t.Fatalf("get: got %q, %v; want sound", got, err)
	}
	copy(got, "YYYYY")
	if again, err := s.Get(within(t), key); err != nil || string(again) != "sound" {
		t.Errorf("get again: got %q, %v; want sound", again, err)
	}
}

// Leases examines leases. open is called once and returns the term, which should be short.
func Leases(t *testing.T, open func(t *testing.T) (l kernel.Leases, term time.Duration)) {
	t.Helper()
	l, term := open(t)

	for _, part := range []struct {
		name string
		exam func(*testing.T, kernel.Leases, time.Duration)
	}{
		{"DEPL-2 an instance that never renewed is not alive", leaseNever},
		{"DEPL-2 a lease is held once renewed, and runs out", leaseRunsOut},
		{"DEPL-2 a lease renewed in time lives on, and another does not keep it alive", leaseRenewed},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.exam(t, l, term)
		})
	}
}

func leaseNever(t *testing.T, l kernel.Leases, _ time.Duration) {
	if alive(t, l, unique("i")) {
		t.Error("got alive, want not")
	}
}

func leaseRunsOut(t *testing.T, l kernel.Leases, term time.Duration) {
	id := unique("i")
	if err := l.Renew(within(t), id); err != nil {
		t.Fatalf("renew: %v", err)
	}
	if !alive(t, l, id) {
		t.Error("right after renewing: got not alive, want alive")
	}
	eventually(t, 20*term+5*time.Second, func() bool { return !alive(t, l, id) }, "the lease of %s ran out (term %s)", id,
		term)
}

func leaseRenewed(t *testing.T, l kernel.Leases, term time.Duration) {
	id, other := unique("i"), unique("i")
	for _, i := range []string{id, other} {
		if err := l.Renew(within(t), i); err != nil {
			t.Fatalf("renew: %v", err)
		}
	}
	tick := time.NewTicker(term / 5)
	defer tick.Stop()
	begin := time.Now()
	last := begin
	for time.Since(begin) < 3*term {
		<-tick.C
		// On a machine that stood still for a term the lease is rightly lost: that round proves nothing.
		if held := alive(t, l, id); !held && time.Since(last) < term {
			t.Fatalf("not alive %s after a renewal, the term is %s", time.Since(last), term)
		}
		if err := l.Renew(within(t), id); err != nil {
			t.Fatalf("renew: %v", err)
		}
		last = time.Now()
	}
	eventually(t, 20*term+5*time.Second, func() bool { return !alive(t, l, other) }, "the lease of %s ran out", other)
}

func alive(t *testing.T, l kernel.Leases, id string) bool {
	t.Helper()
	ok, err := l.Alive(within(t), id)
	if err != nil {
		t.Fatalf("alive %s: %v", id, err)
	}
	return ok
}
