package topology

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/pkg/events"
)

// Buckets are the names of the two buckets that an operator may name. The zero value means the defaults: StateBucket
// and FilesBucket. Code speaks of these buckets by the constants; a connection to NATS puts the names in their place.
type Buckets struct {
	// State is the key-value bucket of the index and the snapshots, Files the object store of what events refer to.
	State, Files string
}

// Variables of these names, for errors that say what to set.
const (
	StateVariable = "INSPAN_STATE_BUCKET"
	FilesVariable = "INSPAN_FILES_BUCKET"
)

// Named returns the names with the defaults filled in.
func (b Buckets) Named() Buckets {
	return Buckets{State: cmp.Or(b.State, StateBucket), Files: cmp.Or(b.Files, FilesBucket)}
}

// Of returns the name of a bucket that the code knows by one of the constants.
func (b Buckets) Of(bucket string) string {
	switch bucket {
	case StateBucket:
		return b.Named().State
	case FilesBucket:
		return b.Named().Files
	}
	return bucket
}

// bucketName is what the name of a bucket may be: one token of a subject, of at most maxBucketName bytes.
var bucketName = pattern.New(`^[A-Za-z0-9_-]+$`)

const maxBucketName = 64

// Check says which variable has a name that cannot be used.
func (b Buckets) Check() error {
	b = b.Named()
	var errs []error
	for _, v := range []struct{ variable, name string }{{StateVariable, b.State}, {FilesVariable, b.Files}} {
		switch {
		case len(v.name) > maxBucketName || !bucketName.MatchString(v.name):
			errs = append(errs, fmt.Errorf("%s is %q, want 1 to 64 letters, digits, hyphens and underscores", v.variable,
				v.name))
		case slices.Contains([]string{ConfigBucket, SessionBucket, TreeBucket, LeaseBucket, ArtifactBucket}, v.name):
			errs = append(errs, fmt.Errorf("%s is %q, which is the name of another bucket of the station: choose a different name", v.variable, v.name))
		}
	}
	if b.State == b.Files {
		errs = append(errs, fmt.Errorf("%s and %s are both %q: choose two different names", StateVariable, FilesVariable,
			b.State))
	}
	return errors.Join(errs...)
}

// Keys of the metadata of a station's log, which say how its buckets are named. A log without them has the defaults, as
// those of earlier versions do.
const (
	stateMetadata = "inspan.state_bucket"
	filesMetadata = "inspan.files_bucket"
)

// metadata is what the log of a station carries from the moment it is made, so that no start with other names passes.
func (b Buckets) metadata() map[string]string {
	m := map[string]string{}
	if b = b.Named(); b.State != StateBucket {
		m[stateMetadata] = b.State
	}
	if b.Files != FilesBucket {
		m[filesMetadata] = b.Files
	}
	return m
}

// OtherBucketsError means that a station was set up with another name of a bucket.
type OtherBucketsError struct {
	Station, Variable string
	// Want is the configured name, Is that of the station.
	Want, Is string
}

func (e *OtherBucketsError) Error() string {
	return fmt.Sprintf("station %s was set up with the bucket %q, but %s is %q here: set %s=%s; another name needs a new station, set up by inspan setup with that name",
		e.Station, e.Is, e.Variable, e.Want, e.Variable, e.Is)
}

// Match compares the names with those in the metadata of the station's log, and returns an *OtherBucketsError where
// they differ.
func (b Buckets) Match(station string, metadata map[string]string) error {
	b, is := b.Named(), Buckets{State: metadata[stateMetadata], Files: metadata[filesMetadata]}.Named()
	var errs []error
	if b.State != is.State {
		errs = append(errs, &OtherBucketsError{Station: station, Variable: StateVariable, Want: b.State, Is: is.State})
	}
	if b.Files != is.Files {
		errs = append(errs, &OtherBucketsError{Station: station, Variable: FilesVariable, Want: b.Files, Is: is.Files})
	}
	return errors.Join(errs...)
}

// Streams is Buckets.Streams with the default names, as are the functions that follow.
func Streams(station string, l Limits) []Stream { return Buckets{}.Streams(station, l) }

// FilesStream is that of the object store.
func FilesStream() string { return Buckets{}.FilesStream() }

// Permissions are those of a service.
func Permissions(station string, role events.Service) (publish, subscribe []string) {
	return Buckets{}.Permissions(station, role)
}

// UserPermissions are those of a user with some rights.
func UserPermissions(station, approver string, rights ...Right) (publish, subscribe []string) {
	return Buckets{}.UserPermissions(station, approver, rights...)
}

// SetupPermissions are those of the user who sets stations up.
func SetupPermissions(station string) (publish, subscribe []string) {
	return Buckets{}.SetupPermissions(station)
}

// Setup is the SetupUser.
func Setup(station string) User { return Buckets{}.Setup(station) }

// Upgrade is the UpgradeUser.
func Upgrade(station string) User { return Buckets{}.Upgrade(station) }

// Outsider is a user with some rights.
func Outsider(station, name, approver string, rights ...Right) User {
	return Buckets{}.Outsider(station, name, approver, rights...)
}

// Accounts renders accounts and users.
func Accounts(station string, outsiders []User, password func(user string) string, administrators ...User) string {
	return Buckets{}.Accounts(station, outsiders, password, administrators...)
}
