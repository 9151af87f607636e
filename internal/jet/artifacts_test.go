package jet_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/internal/topology"
)

func TestArtifactsExam(t *testing.T) {
	t.Parallel()
	kerneltest.Artifacts(t, func(t *testing.T) kernel.Artifacts {
		return jettest.Station(t, jettest.Connect(t, jettest.Server(t), jet.Config{}), "s1", jet.ApplyOptions{}).Artifacts()
	})
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	s := jettest.Server(t)
	st := jettest.Station(t, jettest.Connect(t, s, jet.Config{}), "s1", jet.ApplyOptions{})
	_, js := raw(t, s)
	stream, err := js.Stream(within(t), topology.ArtifactStream())
	if err != nil {
		t.Fatal(err)
	}
	left := func(t *testing.T) uint64 {
		t.Helper()
		info, err := stream.Info(within(t))
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Msgs
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 160_000)
	t.Run("ART-8 removing takes the parts and the description", func(t *testing.T) {
		ref, err := st.Artifacts().Put(within(t), "r1", data, 0)
		if err != nil {
			t.Fatal(err)
		}
		if left(t) < 6 {
			t.Fatalf("%d messages", left(t))
		}
		if err := st.Artifacts().Remove(within(t), "r1", ref.SHA256); err != nil || left(t) != 0 {
			t.Errorf("%d messages are left, %v", left(t), err)
		}
	})
	t.Run("ART-8 half a removal is found and removed again", func(t *testing.T) {
		ref, err := st.Artifacts().Put(within(t), "r1", data, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Purge(within(t), jetstream.WithPurgeSubject("$O."+topology.ArtifactBucket+".C.>")); err != nil {
			t.Fatal(err)
		}
		if all, err := st.Artifacts().Stored(within(t)); err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		if err := st.Artifacts().Remove(within(t), "r1", ref.SHA256); err != nil || left(t) != 0 {
			t.Errorf("%d messages are left, %v", left(t), err)
		}
	})
	t.Run("ART-8 parts that no one described are litter once they are old, and nothing else is", func(t *testing.T) {
		ref, err := st.Artifacts().Put(within(t), "r1", data, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(within(t), "$O."+topology.ArtifactBucket+".C.lost", []byte("part")); err != nil {
			t.Fatal(err)
		}
		if n, err := st.Artifacts().Litter(within(t), time.Now().Add(-time.Hour)); err != nil || n != 0 {
			t.Errorf("%d were taken before their time, %v", n, err)
		}
		if n, err := st.Artifacts().Litter(within(t), time.Now().Add(time.Hour)); err != nil || n != 1 {
			t.Errorf("%d were taken, %v; want 1", n, err)
		}
		if got, err := st.Artifacts().Get(within(t), "r1", ref); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
	t.Run("SAFE-14 a full store says so, and the objects of events have room", func(t *testing.T) {
		c := jettest.Connect(t, jettest.Server(t), jet.Config{})
		st := jettest.Station(t, c, "s1", jet.ApplyOptions{Limits: topology.Limits{ArtifactBytes: 200 << 10}})
		if _, err := st.Artifacts().Put(within(t), "r1", make([]byte, 1<<20), 0); !errors.Is(err, kernel.ErrFull) {
			t.Errorf("got %v, want ErrFull", err)
		}
		if _, err := st.Blobs().Put(within(t), "", make([]byte, 1<<20)); err != nil {
			t.Error(err)
		}
	})
}
