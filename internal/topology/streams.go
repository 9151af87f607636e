package topology

import (
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Limits that an operator may set. The zero value of each means: the default on a new station, and what is there
// already on an old one.
type Limits struct {
	// LogBytes bounds the log of a station; full means that appends are refused. The default is no bound.
	LogBytes int64
	// InBytes bounds what outsiders said and no one has judged yet. The default is DefaultInBytes.
	InBytes int64
	// DeadBytes bounds the dead-letter list; the oldest go first. The default is DefaultDeadBytes.
	DeadBytes int64
	// FileBytes bounds the object store of all stations of the account. The default is no bound.
	FileBytes int64
	// ArtifactBytes bounds the artifacts of all stations of the account; full means that files are left out. The
	// default is no bound.
	ArtifactBytes int64
}

// Sizes and times of the streams.
const (
	// BurstTasks is the number of tasks of the largest size that fit into IN while no planner is there.
	BurstTasks = 10_000
	// DefaultInBytes holds BurstTasks tasks with their headers.
	DefaultInBytes = BurstTasks * (events.MaxTask + 1<<10)
	// DefaultDeadBytes and DeadAge bound the dead-letter list.
	DefaultDeadBytes = 64 << 20
	DeadAge          = 7 * 24 * time.Hour
	// LiveBytes, LiveMessages and LiveAge bound the live messages that are kept: all of them, those of one run, and for
	// how long. The oldest go first.
	LiveBytes    = 64 << 20
	LiveMessages = 16 << 10
	LiveAge      = 2 * time.Hour
	// MaxLive is the most bytes of a live message with its headers: the largest part of a text, each byte escaped.
	MaxLive = 256 << 10
	// MaxInput is the most bytes of one message of an outsider, headers included.
	MaxInput = 256 << 10
	// MaxLogged is the most bytes of one stored fact with its headers: the server's own guard behind events.MaxEvent.
	MaxLogged = events.MaxEvent + 4<<10
	// MaxDead is the most bytes of a dead letter with its headers: the server's own guard behind events.MaxDeadLetter.
	MaxDead = events.MaxDeadLetter + 2<<10
	// ShortestWindow is the shortest dedup window that the server accepts in a stream without a source. We use no
	// message ids, so it only keeps one publisher from swallowing the message of another for long.
	ShortestWindow = 100 * time.Millisecond
	// DueAge is how long a firing waits for a role that is away. The timer of a role that is away longer is lost,
	// which is why roles look again when they start.
	DueAge = 30 * 24 * time.Hour
	// AckWait is how long a delivered message may go without a sign of life.
	AckWait = 30 * time.Second
	// ChunkBytes is the size of the parts that an object is stored in.
	ChunkBytes = 512 << 10
	// MaxObject is the most bytes of one object.
	MaxObject = 100 << 20
)

// Retention says when a stream lets go of a message.
type Retention string

// Kept until a limit, or until its consumer has acknowledged it.
const (
	KeepToLimits Retention = "limits"
	KeepToAck    Retention = "workqueue"
)

// Stream is one row of the table. All streams are files: one in the memory of a server that stands alone is not there
// any more when that server has been restarted.
type Stream struct {
	Name, Description string
	Subjects          []string
	Retention         Retention
	// DiscardNew refuses the new message when full; else the oldest one goes.
	DiscardNew bool
	// MaxBytes is -1 for no bound; Bounded says that an operator asked for it, so it also changes an old stream.
	MaxBytes int64
	Bounded  bool
	// MaxMsgSize is 0 for no bound but the server's.
	MaxMsgSize int32
	MaxPerKey  int64
	MaxAge     time.Duration
	Window     time.Duration
	// SourceOf is a stream and a subject in it that nothing is ever stored on, empty for none. The server keeps no
	// message ids, and so drops no message as a duplicate, in a stream that has a source and a window of 0.
	SourceOf, SourceSubject string
	// Powers, each off unless it is named.
	DenyDelete, DenyPurge, Rollup, TTL, Schedules, Direct, Batches bool
	// Each stored message is published again, without being stored, from and to these subjects.
	RepublishFrom, RepublishTo string
	// WatchedAs is the subject on which people hear what is published again, empty for RepublishTo.
	WatchedAs string
	// Metadata that a new stream gets; it is not changed later.
	Metadata map[string]string
}

// Streams returns the streams of a station, then the buckets that all stations of an account share.
func (b Buckets) Streams(station string, l Limits) []Stream {
	s := "station." + station + "."
	own := []Stream{
		{
			Name: Log(station), Description: "Events of the runs and other aggregates of station " + station + ": append only.",
			Subjects: logged(station), Retention: KeepToLimits, DiscardNew: true,
			MaxBytes: orElse(l.LogBytes, -1), Bounded: l.LogBytes != 0, MaxMsgSize: MaxLogged, Window: ShortestWindow,
			DenyDelete: true, DenyPurge: true, Direct: true, Batches: true,
			RepublishFrom: LoggedEvents(station), RepublishTo: s + "{{wildcard(1)}}.{{wildcard(2)}}.stream",
			Metadata: b.metadata(),
		},
		{
			Name: In(station), Description: "What outsiders say to station " + station + ", until its role has judged it.",
			Subjects: inputs(station), Retention: KeepToAck, DiscardNew: true,
			MaxBytes: orElse(l.InBytes, DefaultInBytes), Bounded: l.InBytes != 0, MaxMsgSize: MaxInput,
			// Outsiders choose message ids: one who knew another's could have its message dropped.
			SourceOf: Dead(station), SourceSubject: s + "dead.none",
			DenyDelete: true, DenyPurge: true,
		},
		{
			Name: Dead(station), Description: "Input that station " + station + " refused, with the reason.",
			Subjects: []string{s + "dead.*"}, Retention: KeepToLimits, MaxBytes: orElse(l.DeadBytes, DefaultDeadBytes),
			Bounded: l.DeadBytes != 0, MaxMsgSize: MaxDead, MaxAge: DeadAge, Window: ShortestWindow, DenyDelete: true,
			Direct:        true,
			RepublishFrom: s + "dead.*", RepublishTo: s + "letter.{{wildcard(1)}}", WatchedAs: s + "dead.{{wildcard(1)}}",
		},
		{
			Name: Live(station), Description: "What was said live at station " + station +
				", where it is to be kept for those who come late. No fact.",
			Subjects: []string{s + "run.*.kept"}, Retention: KeepToLimits, MaxBytes: LiveBytes, MaxMsgSize: MaxLive,
			MaxPerKey: LiveMessages, MaxAge: LiveAge, Window: ShortestWindow, DenyDelete: true, DenyPurge: true, Direct: true,
			RepublishFrom: s + "run.*.kept", RepublishTo: s + "run.{{wildcard(1)}}.live",
		},
	}
	return slices.Concat(own, timers(station), b.streams(l))
}

// timers are the streams of timers, one for each family.
func timers(station string) []Stream {
	var all []Stream
	for _, h := range subscriptions {
		for _, family := range h.Timers {
			of := ".*." + family + ".*"
			all = append(all, Stream{
				Name: Tmr(station, family), Description: "Timers " + family + " of station " + station + " and their firings.",
				// A firing stays until its role has taken note. Schedules need rollup and can not discard new.
				Subjects: []string{"station." + station + ".timer" + of, "station." + station + ".due" + of}, Retention: KeepToAck,
				MaxBytes:   -1,
				MaxMsgSize: 4 << 10, Window: ShortestWindow, Rollup: true, TTL: true, Schedules: true,
			})
		}
	}
	return all
}

// streams behind buckets have the form that every NATS client knows as key-value and object stores, but without rollup:
// with it, one permitted key is enough to erase the whole bucket. Objects are put once and never replaced.
func (b Buckets) streams(l Limits) []Stream {
	b = b.Named()
	kv := func(bucket, description string, age time.Duration) Stream {
		return Stream{Name: KVStream(bucket), Description: description, Subjects: []string{"$KV." + bucket + ".>"},
			Retention: KeepToLimits, DiscardNew: true, MaxBytes: -1, MaxPerKey: 1, MaxAge: age, Window: ShortestWindow,
			DenyDelete: true, Direct: true}
	}
	return []Stream{
		kv(b.State, "Views of runs: index and snapshots. Can be made again from the log.", 0),
		kv(ConfigBucket, "Agents, guards and other configuration.", 0),
		kv(SessionBucket, "Sessions: who may work in which, and where its history is. Not in the log.", 0),
		kv(TreeBucket, "Working trees: who works in which, and its snapshots. Not in the log.", 0),
		kv(LeaseBucket, "Which instances are alive.", LeaseTerm),
		{
			Name: b.FilesStream(), Description: "Large things by content.",
			Subjects:  []string{"$O." + b.Files + ".C.>", "$O." + b.Files + ".M.>"},
			Retention: KeepToLimits, DiscardNew: true, MaxBytes: orElse(l.FileBytes, -1), Bounded: l.FileBytes != 0,
			Window: ShortestWindow, DenyDelete: true, Direct: true,
		},
		{
			Name: ArtifactStream(), Description: "Artifacts of runs by content, until they expire.",
			Subjects:  []string{"$O." + ArtifactBucket + ".C.>", "$O." + ArtifactBucket + ".M.>"},
			Retention: KeepToLimits, DiscardNew: true, MaxBytes: orElse(l.ArtifactBytes, -1), Bounded: l.ArtifactBytes != 0,
			Window: ShortestWindow, DenyDelete: true, Direct: true,
		},
	}
}

// KVStream is the name of the stream behind a key-value bucket.
func KVStream(bucket string) string { return "KV_" + bucket }

// FilesStream is the name of the stream behind the object store.
func (b Buckets) FilesStream() string { return "OBJ_" + b.Named().Files }

// ArtifactStream is the name of the stream behind the artifacts.
func ArtifactStream() string { return "OBJ_" + ArtifactBucket }

// Consumer is one durable pull consumer: what one role receives from one stream. All instances of the role share it.
type Consumer struct {
	Stream string
	// Name is the role's, with "-apart" and "-always" for the inputs that have a consumer of their own.
	Name    string
	Filters []string
	// MaxPending bounds what is delivered and not acknowledged, over all instances.
	MaxPending int
	// Single says that each message is asked for by a request of its own, because outsiders say what is in it.
	Single bool
	// Always says that it is received from by itself, also while the station is halted.
	Always bool
}

// minPending bounds what is delivered and not acknowledged of one consumer, for all instances of its role together. A
// message counts while it is worked on and while it waits to be looked at again: a step that backs off, a task whose
// turn has not come. Behind the bound its consumer stands still and no other: each role has consumers of its own, so no
// role waits for another. It is far above what the workers of several instances hold, and small enough for the server's
// memory.
const minPending = 4096

// Consumers returns the consumers of a role: one per stream, and one more for the inputs that stand apart.
func Consumers(station string, role events.Service) []Consumer {
	return SubscriptionsOf(role).consumers(station)
}

func (h Subscriptions) consumers(station string) []Consumer {
	role, s := h.Role, "station."+station+"."
	byStream := []Consumer{{Stream: Log(station)}, {Stream: In(station), Single: true},
		{Stream: In(station), Name: string(role) + "-apart", Single: true},
		{Stream: In(station), Name: string(role) + "-always", Single: true, Always: true}}
	if h.All {
		byStream[0].Filters = []string{s + "run.*.evt.*.*"}
	}
	for _, k := range h.Events {
		byStream[0].Filters = append(byStream[0].Filters, events.RunEventsOfKind(station, k))
	}
	for _, i := range h.Others {
		byStream[0].Filters = append(byStream[0].Filters, events.KindEvents(station, i.Aggregate, i.Kind))
	}
	for _, pattern := range h.Inputs {
		at := &byStream[1]
		switch {
		case slices.Contains(h.Apart, pattern):
			at = &byStream[2]
		case slices.Contains(h.Always, pattern):
			at = &byStream[3]
		}
		at.Filters = append(at.Filters, s+pattern)
	}
	for _, family := range h.Timers {
		byStream = append(byStream, Consumer{Stream: Tmr(station, family), Filters: []string{s + "due.*." + family + ".*"}})
	}
	var some []Consumer
	for _, c := range byStream {
		if len(c.Filters) == 0 {
			continue
		}
		if c.MaxPending = max(minPending, 4*h.Workers); c.Name == "" {
			c.Name = string(role)
		}
		some = append(some, c)
	}
	return some
}

// logged are the subjects of the log: one for each aggregate, whose name is no wildcard, because what is imported from
// the account of the streams has none in its first three tokens.
func logged(station string) []string {
	var subjects []string
	for _, a := range Aggregates() {
		subjects = append(subjects, "station."+station+"."+a.Name+".*.evt.*.*")
	}
	return subjects
}

// LoggedEvents is the filter for all events in the log of a station.
func LoggedEvents(station string) string { return "station." + station + ".*.*.evt.*.*" }

// RepublishedEvents is the pattern of the subjects on which the log republishes them, in its own account.
func RepublishedEvents(station string) string { return events.AggregateStream(station, "*", "*") }

// inputs are the subjects of IN: what any role receives.
func inputs(station string) []string {
	var subjects []string
	for _, h := range subscriptions {
		for _, pattern := range h.Inputs {
			subjects = append(subjects, "station."+station+"."+pattern)
		}
	}
	return subjects
}

func orElse(v, otherwise int64) int64 {
	if v == 0 {
		return otherwise
	}
	return v
}
