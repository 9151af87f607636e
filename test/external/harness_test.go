package external

import (
	"context"
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/harness"
)

// How do I write a program whose steps a station records, and have its agents work in them?
func Example_harness() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	st, stop, err := herald(ctx, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	for range 2 { // the second one finds all of it recorded
		c := &Crier{News: []string{"The bridge is open.", "The market is closed."}}
		err := harness.Run(ctx, c, harness.HarnessConfig[Announced]{}, harness.OnStation(st.Client(), "crier"))
		fmt.Println(err, c.CurrentStep(), c.State().News)
		for _, s := range c.StepHistory() {
			fmt.Println(s.StepNumber, s.Input, s.Output.Success)
		}
	}
	// Output:
	// <nil> 2 2
	// 1 The bridge is open. true
	// 2 The market is closed. true
	// <nil> 2 2
	// 1 The bridge is open. true
	// 2 The market is closed. true
}
