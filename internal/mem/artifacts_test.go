package mem_test

import (
	"testing"

	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/internal/reactor/reactortest"
)

func TestArtifactsExam(t *testing.T) {
	t.Parallel()
	reactortest.Artifacts(t, func(t *testing.T) reactor.Artifacts {
		st, err := mem.New("s1", mem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return st.Artifacts()
	})
}
