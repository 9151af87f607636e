// Package server compares a NATS server and the credentials of a station with what that needs.
package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/doctor/report"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// leastServer is the oldest version that has all that a station asks for: schedules in a stream, atomic batches, and
// consumers that can be put back.
var leastServer = [3]int{2, 14, 0}

// most is how far the clocks of a server and of this machine may differ: timers and expiries are set by one and read by
// the other.
const mostSkew = 2 * time.Second

// soon is when credentials that end are worth a line.
const soon = 7 * 24 * time.Hour

// maxMissing bounds how many missing rights one line names.
const maxMissing = 6

// own is what a station is set up with, as the settings say.
type own struct {
	station  string
	buckets  topology.Buckets
	limits   topology.Limits
	replicas int
	// shared says that one account for streams and users is accepted, role is the user whose rights are wanted.
	shared bool
	role   string
}

// Findings are what the server and the credentials of a station lack (PLUS-17). They are there where a server is
// named: that of inspan up is as it should be.
func Findings(ctx context.Context, a *app.App, role string) []report.Finding {
	cfg, err := a.Config()
	if err != nil {
		return nil // reported with the settings
	}
	asked := report.Finding{What: "nats", Needed: true, State: "cannot be asked"}
	conn, err := dial(ctx, a, cfg, role)
	if err != nil {
		asked.State, asked.Hint = "does not let this program in at "+a.Address(), err.Error()
		return []report.Finding{asked}
	}
	defer conn.Close()
	st, err := conn.Station(a.Station)
	var is jet.Inspection
	if err == nil {
		is, err = st.Inspect(ctx, cfg.Replicas)
	}
	if err != nil {
		asked.Hint = err.Error()
		if errors.Is(err, jet.ErrDenied) && role == "" {
			asked.Hint += "; where they are those of a service, name it with --role"
		}
		return []report.Finding{asked}
	}
	found := judge(is, own{station: a.Station, buckets: a.Buckets(), limits: cfg.Limits(), replicas: cfg.Replicas,
		shared: cfg.NATSShared, role: role})
	return append(found, durabilityFinding(ctx, conn, cfg.AcceptLazy, is.SetUp))
}

// dial connects as the role would: each service hears answers on a subject of its own.
func dial(ctx context.Context, a *app.App, cfg service.Config, role string) (*jet.Conn, error) {
	if err := app.UseLogin(a); err != nil {
		return nil, err
	}
	certificates, err := a.Context.TLS()
	if err != nil {
		return nil, err
	}
	to := jet.Config{URL: a.Server, Creds: a.Creds, NKey: a.Context.NKey, TLS: certificates, Name: "inspan doctor",
		Buckets: a.Buckets()}
	if IsService(role) {
		to.InboxPrefix = topology.InboxPrefix(a.Station, events.Service(role))
	}
	if cfg.NATSMonitor != "" {
		to.Monitors = []string{cfg.NATSMonitor}
	}
	try, cancel := context.WithTimeout(ctx, app.ConnectWait)
	defer cancel()
	return jet.Connect(try, to)
}

// IsService reports whether a user is that of a service, which is no client of the station.
func IsService(role string) bool { return slices.Contains(events.Services(), events.Service(role)) }

// durabilityFinding is what setup and services do at their start, too: they refuse a server that may lose what it
// acknowledged. A station that is set up has been through that, so one that cannot be seen from here fails nothing.
func durabilityFinding(ctx context.Context, conn *jet.Conn, accepted, setUp bool) report.Finding {
	f := report.Finding{What: "nats durability", Needed: !accepted && !setUp, State: "syncs before it acknowledges",
		Hint: "set jetstream { sync_interval: always } on each server; where it is set and only cannot be seen, name its monitoring address in INSPAN_NATS_MONITOR; for a managed server INSPAN_ACCEPT_LAZY_FSYNC=true accepts that a power cut loses what was acknowledged last"}
	d, err := conn.Servers().Durability(ctx)
	switch {
	case err != nil:
		f.State, f.Hint = "cannot be asked", err.Error()
	case !d.Known:
		f.State = "not known: no server says it to this user"
	case !d.SyncAlways:
		f.State = "acknowledges before it syncs, every " + d.Interval.String()
	default:
		f.OK = true
	}
	if accepted && !f.OK {
		f.State += ", which INSPAN_ACCEPT_LAZY_FSYNC accepts"
	}
	return f
}

// judge compares what a server is with what a station needs.
func judge(is jet.Inspection, want own) []report.Finding {
	found := []report.Finding{versionFinding(is), payloadFinding(is), clockFinding(is), credentialsFinding(is)}
	if is.NoJetStream != nil {
		return append(found, report.Finding{What: "nats jetstream", Needed: true, State: "not enabled for these credentials",
			Hint: is.NoJetStream.Error()})
	}
	found = append(found, report.Finding{What: "nats jetstream", OK: true, Needed: true, State: "enabled"}, accountFinding(is, want),
		replicasFinding(is, want))
	return append(append(found, limitFindings(is, want)...), rightsFinding(is, want))
}

func versionFinding(is jet.Inspection) report.Finding {
	f := report.Finding{What: "nats version", Needed: true, State: is.Version, OK: !older(is.Version, leastServer),
		Hint: fmt.Sprintf("a station needs nats-server %d.%d or newer: schedules, atomic batches and consumers that are put back", leastServer[0], leastServer[1])}
	if !is.Headers {
		f.OK, f.State, f.Hint = false, is.Version+", without headers", "switch headers on: no_header_support is set in the server's configuration"
	}
	return f
}

// older compares versions; one that is no version is not older.
func older(version string, than [3]int) bool {
	parts := strings.SplitN(strings.SplitN(version, "-", 2)[0], ".", 3)
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil {
			return false
		}
		if n != than[i] {
			return n < than[i]
		}
	}
	return false
}

func payloadFinding(is jet.Inspection) report.Finding {
	return report.Finding{What: "nats max_payload", Needed: true, OK: is.MaxPayload >= topology.LeastPayload, State: view.Bytes(is.MaxPayload),
		Hint: "set max_payload on the server, or the payload limit of the account, to " + view.Bytes(topology.LeastPayload) + " or more"}
}

func clockFinding(is jet.Inspection) report.Finding {
	f := report.Finding{What: "nats clock", OK: true, State: "not known: this user may not ask"}
	if is.ClockKnown {
		f.State = fmt.Sprintf("differs from this machine's by %s", is.Skew.Abs().Round(time.Millisecond))
		f.OK = is.Skew.Abs() <= mostSkew+is.Round
		f.Hint = "set both clocks by NTP: timers and the ends of credentials are judged by different machines"
	}
	return f
}

func credentialsFinding(is jet.Inspection) report.Finding {
	f := report.Finding{What: "nats user", OK: true, State: "not known: the server does not say"}
	if is.User != "" || is.Account != "" {
		f.State = fmt.Sprintf("%s, in account %s", orNone(is.User), is.Account)
	}
	if !is.Protected {
		f.State += "; the server lets in who gives no name"
	}
	if is.Expires > 0 {
		f.State += ", until " + time.Now().Add(is.Expires).UTC().Format(time.RFC3339)
		f.OK = is.Expires > soon
		f.Hint = "put new credentials into the same file before: services read it again when they connect (inspan nats-accounts --renew)"
	}
	return f
}

func orNone(name string) string {
	if name == "" {
		return "no name"
	}
	return name
}

func accountFinding(is jet.Inspection, want own) report.Finding {
	f := report.Finding{What: "nats accounts", OK: true, State: "the streams have an account of their own"}
	administrator := want.role == topology.SetupUser || want.role == topology.UpgradeUser
	switch {
	case is.Separation == jet.Separate:
	case is.Separation == jet.OneAccount && administrator:
		f.State = "this user is in the account of the streams; ask as a service whether services are not"
	case !is.Protected:
		f.State = "one for all, and no one is asked for a name: for people who trust each other"
	case want.shared:
		f.State = "one for streams and users, which INSPAN_NATS_SHARED_ACCOUNT accepts: services can act for each other (docs/own-nats.md)"
	default:
		f.OK, f.Needed = false, is.Separation == jet.OpenAccount || want.role != ""
		f.State = "the streams are in the account of this user"
		f.Hint = "make two accounts (inspan nats-accounts, or deploy/nats/users.conf), or set INSPAN_NATS_SHARED_ACCOUNT=true and read in docs/own-nats.md what protection is lost; for setup give --role setup, who is in that account"
	}
	return f
}

func replicasFinding(is jet.Inspection, want own) report.Finding {
	f := report.Finding{What: "nats replicas", Needed: true, OK: true, State: fmt.Sprintf("INSPAN_REPLICAS is %d, and the server stands alone", want.replicas)}
	if is.Cluster != "" {
		f.State = fmt.Sprintf("INSPAN_REPLICAS is %d, in cluster %s", want.replicas, is.Cluster)
	}
	if is.SetUp {
		f.State += fmt.Sprintf("; the log has %d", is.Replicas)
	}
	switch {
	case want.replicas > 1 && is.Cluster == "":
		f.OK, f.Hint = false, "set INSPAN_REPLICAS=1, or use a cluster of three servers"
	case is.SetUp && want.replicas != is.Replicas:
		f.OK, f.Needed, f.Hint = false, false, "set INSPAN_REPLICAS to what the log has, or run inspan setup as the user upgrade (docs/deploy.md)"
	}
	return f
}

// limitFindings compare the limits of the account with what a station takes. One that is set up has its streams.
func limitFindings(is jet.Inspection, want own) []report.Finding {
	l := is.Limits
	if l == nil {
		return []report.Finding{{What: "nats limits", OK: true, State: "not known: this user may not ask; setup and planner may"}}
	}
	streams := len(want.buckets.Streams(want.station, want.limits))
	bytes, unlimited := topology.SetAside(want.limits)
	if is.SetUp {
		streams, bytes = 0, 0
	}
	of := ""
	if l.Tier != "" {
		of = " of " + l.Tier
	}
	found := []report.Finding{
		{What: "nats streams", Needed: true, OK: l.Streams < 0 || l.UsedStreams+streams <= l.Streams,
			State: fmt.Sprintf("%d are there and %d more are needed, of %s%s", l.UsedStreams, streams, limited(int64(l.Streams), false), of),
			Hint:  fmt.Sprintf("have the account's limit of streams raised to %d", l.UsedStreams+streams)},
		{What: "nats consumers", Needed: true, OK: l.Consumers < 0 || topology.MostConsumers() <= l.Consumers,
			State: fmt.Sprintf("%d on one stream are needed, of %s%s", topology.MostConsumers(), limited(int64(l.Consumers), false), of),
			Hint:  fmt.Sprintf("have the account's limit of consumers raised to %d", topology.MostConsumers())},
		{What: "nats storage", Needed: true, OK: l.Store < 0 || l.UsedStore+bytes*int64(want.replicas) <= l.Store,
			State: fmt.Sprintf("%s are used, and the streams with a limit set %s aside, of %s%s", view.Bytes(l.UsedStore), view.Bytes(bytes*int64(want.replicas)), limited(l.Store, true), of),
			Hint:  "have the account's storage raised, or lower INSPAN_IN_MAX_BYTES and INSPAN_LOG_MAX_BYTES"}}
	if l.StreamBytes > 0 {
		found = append(found, report.Finding{What: "nats stream size", Needed: true, OK: largest(want) <= l.StreamBytes,
			State: fmt.Sprintf("%s at most, and the largest stream wants %s", view.Bytes(l.StreamBytes), view.Bytes(largest(want))),
			Hint:  "lower INSPAN_IN_MAX_BYTES, INSPAN_LOG_MAX_BYTES, INSPAN_FILES_MAX_BYTES or INSPAN_ARTIFACT_MAX_BYTES, or have the limit raised"})
	}
	if l.BytesRequired {
		needs := want.limits.LogBytes == 0 || want.limits.FileBytes == 0 || want.limits.ArtifactBytes == 0
		found = append(found, report.Finding{What: "nats max_bytes", Needed: true, OK: is.SetUp || !needs,
			State: fmt.Sprintf("the account wants a limit of every stream; %d have none in the table, of which inspan setup gives timers and key-value buckets one", unlimited),
			Hint:  "set INSPAN_LOG_MAX_BYTES, INSPAN_FILES_MAX_BYTES and INSPAN_ARTIFACT_MAX_BYTES"})
	}
	if l.MaxPending > 0 {
		found = append(found, report.Finding{What: "nats max_ack_pending", Needed: true, OK: l.MaxPending >= topology.MostPending(),
			State: fmt.Sprintf("%d at most, and consumers want %d", l.MaxPending, topology.MostPending()),
			Hint:  fmt.Sprintf("have the account's limit raised to %d", topology.MostPending())})
	}
	return found
}

// largest is the most that one stream with a limit sets aside.
func largest(want own) (most int64) {
	for _, st := range want.buckets.Streams(want.station, want.limits) {
		most = max(most, st.MaxBytes)
	}
	return most
}

func limited(n int64, bytes bool) string {
	switch {
	case n < 0:
		return "no limit"
	case bytes:
		return view.Bytes(n)
	}
	return strconv.FormatInt(n, 10)
}

// rightsFinding compares the rights of this user with those of the role that is asked about, or says which it has.
func rightsFinding(is jet.Inspection, want own) report.Finding {
	f := report.Finding{What: "nats rights", Needed: want.role != ""}
	if is.Rights == nil {
		f.OK, f.Needed = want.role == "", false
		f.State = "not known: this user may not ask on " + topology.UserInfo
		f.Hint = "users of an earlier version cannot ask: make accounts and users again from this version (inspan nats-accounts, deploy/nats/users.conf)"
		return f
	}
	if want.role != "" {
		lacks := missing(is, want, want.role)
		f.OK, f.State = len(lacks) == 0, "all that "+want.role+" needs"
		if !f.OK {
			f.State = fmt.Sprintf("%s lacks %d: %s", want.role, len(lacks), strings.Join(clip(lacks), "; "))
			f.Hint = "these are credentials of another user, or of another version: inspan nats-accounts makes those of " + want.role
		}
		return f
	}
	var all []string
	for _, user := range topology.AllUsers() {
		if len(missing(is, want, user)) == 0 {
			all = append(all, user)
		}
	}
	f.OK, f.State = true, "all that these need: "+strings.Join(all, ", ")
	if len(all) == 0 {
		f.State = "those of none of the users that every station has; --role NAME says what it lacks of one"
	}
	return f
}

// missing are the rights of a user of the table that these credentials lack.
func missing(is jet.Inspection, want own, user string) []string {
	needs, ok := topology.Needs(want.buckets, want.station, user, is.Separation == jet.Separate)
	if !ok {
		return nil
	}
	var lacks []string
	for _, s := range topology.Allowed(needs.Publish) {
		if !is.Rights.Publish.Has(s) {
			lacks = append(lacks, "publish "+s)
		}
	}
	for _, s := range topology.Allowed(needs.Subscribe) {
		if !is.Rights.Subscribe.Has(s) {
			lacks = append(lacks, "subscribe "+s)
		}
	}
	return lacks
}

func clip(all []string) []string {
	if len(all) <= maxMissing {
		return all
	}
	return append(slices.Clone(all[:maxMissing]), fmt.Sprintf("and %d more", len(all)-maxMissing))
}
