package mem_test

import (
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/internal/mem"
)

func TestArtifactsExam(t *testing.T) {
	t.Parallel()
	kerneltest.Artifacts(t, func(t *testing.T) kernel.Artifacts {
		st, err := mem.New("s1", mem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return st.Artifacts()
	})
}
