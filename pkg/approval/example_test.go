package approval_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/inspan/inspan/pkg/approval"
)

// keys makes a key of anna and returns it with the folder that verifiers read.
func keys() (anna approval.Key, dir string, err error) {
	if dir, err = os.MkdirTemp("", "approvers"); err != nil {
		return anna, "", err
	}
	if anna, err = approval.NewKey(); err != nil {
		return anna, dir, err
	}
	return anna, dir, anna.Save(filepath.Join(dir, "anna")) // and anna.pub beside it
}

// An answer to a gate is signed over the gate, the decision and the hash of the action that was shown.
func ExampleKey_Sign() {
	anna, dir, err := keys()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	yes := approval.Statement{Station: "main", Run: "run-1", Gate: "g-1", Decision: approval.Approve, ProposalHash: "0123abcd"}
	signature, err := anna.Sign(yes)
	if err != nil {
		fmt.Println(err)
		return
	}
	known, err := approval.LoadKeys(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(known.Verify(yes, anna.ID(), signature))
	yes.ProposalHash = "another"
	_, err = known.Verify(yes, anna.ID(), signature)
	fmt.Println(errors.Is(err, approval.ErrBadSignature))
	// Output:
	// anna <nil>
	// true
}

// A key is read from its file, which only its owner may read; LoadKeys reads the public halves of all approvers.
func ExampleLoadKey() {
	anna, dir, err := keys()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	again, err := approval.LoadKey(filepath.Join(dir, "anna"))
	if err != nil {
		fmt.Println(err)
		return
	}
	known, err := approval.LoadKeys(dir)
	fmt.Println(again.ID() == anna.ID(), known.Len(), err)
	// Output: true 1 <nil>
}

// A key that left the folder signs nothing any more.
func ExampleKeys_Verify() {
	stranger, err := approval.NewKey()
	if err != nil {
		fmt.Println(err)
		return
	}
	no := approval.Statement{Station: "main", Run: "run-1", Gate: "g-1", Decision: approval.Reject, ProposalHash: "0123abcd"}
	signature, err := stranger.Sign(no)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = approval.Keys{}.Verify(no, stranger.ID(), signature)
	fmt.Println(errors.Is(err, approval.ErrUnknownKey))
	_, err = approval.Keys{}.Verify(no, stranger.ID(), "")
	fmt.Println(errors.Is(err, approval.ErrUnsigned))
	// Output:
	// true
	// true
}
