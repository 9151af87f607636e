// Package backup copies a whole station into a folder while it runs, and fills an empty station from such a folder.
//
// Promises: a backup is one point of the log with all that the runs of that point need, and a station restored from it
// goes on as one that was killed at that point. The file with the manifest is written last, so a backup that was
// interrupted does not look whole. A restore reads the whole folder and compares every digest before it writes
// anything; it fills only a station without events, or goes on where an earlier restore of the same backup ended. Keys
// of the station are never in the folder. ADR 0074 says why the order of the copies makes the point safe. A backup is
// copied without what is over (Prune) or what has to be deleted (Forget): such a copy is whole, or nothing is written.
package backup

import (
	"context"
	"errors"
	"time"
)

// Errors of backups and restores.
var (
	// ErrExists means that the folder has something that is no interrupted backup.
	ErrExists = errors.New("the folder is not empty")
	// ErrNoBackup means that the folder has no whole backup.
	ErrNoBackup = errors.New("no whole backup is in the folder")
	// ErrDamaged means that a file of a backup is missing or does not have the bytes that were written.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrOtherStation means that the backup is of a station with another name, which its subjects have.
	ErrOtherStation = errors.New("the backup is of another station")
	// ErrNotEmpty means that the station to be filled has events that are not those of the backup.
	ErrNotEmpty = errors.New("the station is not empty")
	// ErrHoles means that the log of the station lacks events.
	ErrHoles = errors.New("the log of the station is damaged")
	// ErrBusy means that no point was found at which every input was either copied or judged.
	ErrBusy = errors.New("the station takes inputs faster than they can be copied")
)

// Message is a stored message of a stream.
type Message struct {
	Subject string              `json:"s"`
	Seq     uint64              `json:"q"`
	Time    time.Time           `json:"t"`
	Header  map[string][]string `json:"h,omitempty"`
	Data    Bytes               `json:"d"`
}

// State is what the leader of a stream says of it.
type State struct {
	First, Last, Messages uint64
	Deleted               int
}

// Value is a key of a bucket with its value.
type Value struct {
	Bucket string `json:"bucket"`
	Key    string `json:"key"`
	Value  Bytes  `json:"value"`
}

// Object is something large by its digest: what events refer to, or, where Run is set, an artifact.
type Object struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	Type   string `json:"type,omitempty"`
	Run    string `json:"run,omitempty"`
	// TTL is how long an artifact is kept after its run.
	TTL time.Duration `json:"ttl_ns,omitempty"`
}

// Source is a station that is copied. Its reads go to the leader, or say so where they may be behind.
type Source interface {
	// LogState and InState are those of the log and of the stream of inputs, from the leader.
	LogState(ctx context.Context) (State, error)
	InState(ctx context.Context) (State, error)
	// LogAfter returns some events behind a position, in order.
	LogAfter(ctx context.Context, after uint64) ([]Message, error)
	// InAfter returns the next input behind a position, from the leader; ok is false where there is none. TimersAfter
	// does so for the timers of a family.
	InAfter(ctx context.Context, after uint64) (m Message, ok bool, err error)
	TimersAfter(ctx context.Context, family string, after uint64) (m Message, ok bool, err error)
	// KeyNames lists the keys of a bucket, also deleted ones; Value returns kernel.ErrNotFound for those.
	KeyNames(ctx context.Context, bucket string) ([]string, error)
	Value(ctx context.Context, bucket, key string) ([]byte, error)
	// Objects lists those that events may refer to and the artifacts; ReadObject checks the digest.
	Objects(ctx context.Context) ([]Object, error)
	ReadObject(ctx context.Context, o Object) ([]byte, error)
}

// Target is an empty station that is filled. No service of it may run.
type Target interface {
	LogState(ctx context.Context) (State, error)
	LogAfter(ctx context.Context, after uint64) ([]Message, error)
	// RenewIn makes the stream of inputs again, empty, so that its next position is the one given.
	RenewIn(ctx context.Context, next uint64) error
	// PutInput and PutTimer store a message on its subject.
	PutInput(ctx context.Context, m Message) error
	PutTimer(ctx context.Context, family string, m Message) error
	// AppendLog stores events at exactly their positions, or fails.
	AppendLog(ctx context.Context, ms []Message) error
	PutValue(ctx context.Context, v Value) error
	PutObject(ctx context.Context, o Object, data []byte) error
}

// Progress is called with what is copied and how much of it is done; total is 0 where it is not known.
type Progress func(what string, done, total uint64)

func (p Progress) say(what string, done, total uint64) {
	if p != nil {
		p(what, done, total)
	}
}
