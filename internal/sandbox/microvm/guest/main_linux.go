package guest

import (
	"fmt"
	"os"
)

// Main is the whole program. It returns the exit status.
func Main() int {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == wordLaunch:
		err = launch()
	case len(os.Args) == 2 && os.Args[1] == wordAgent:
		err = serve()
	case os.Getpid() == 1:
		err = boot()
		restart(err)
	default:
		fmt.Fprintln(os.Stderr, "inspan-guest is the first process in the virtual machine of a sandbox; it is not run by hand")
		return 2
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "inspan-guest:", err)
		return 1
	}
	return 0
}
