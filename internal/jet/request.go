package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/inspan/inspan/internal/kernel"
)

const apiPrefix = "$JS.API."

// request sends a message and waits for its answer, at most requestWait. A denied subject ends it at once with
// ErrDenied.
func (c *Conn) request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		return nil, err
	}
	watched, done := c.denied.watch(ctx, m.Subject)
	defer done()
	answer, err := c.nc.RequestMsgWithContext(watched, m)
	if cause := context.Cause(watched); err != nil && cause != nil {
		return nil, fmt.Errorf("no answer on %s: %w", m.Subject, cause)
	}
	if err != nil {
		return nil, fmt.Errorf("no answer on %s: %w", m.Subject, err)
	}
	return answer, nil
}

// unansweredWait bounds how long a request that no one took is made again, within requestWait, so that the error says
// that no one did. unansweredRetry is the wait between two tries.
const (
	unansweredWait  = 4 * time.Second
	unansweredRetry = 10 * time.Millisecond
)

// taken makes a request again while no one takes it, for a moment: a server that reloads its accounts answers so, and a
// stream between two leaders. It is for what may be asked twice. An append settles that itself.
func taken(ctx context.Context, do func() error) error {
	for limit := time.Now().Add(unansweredWait); ; {
		err := do()
		if !untaken(err) || time.Now().After(limit) || kernel.Sleep(ctx, unansweredRetry) != nil {
			return err
		}
	}
}

// untaken reports whether no one took a request. The client library has an error of its own for publishes to a stream.
func untaken(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// ErrUnanswered means that no one took a request: there is a server, and the station is not there, not yet or not any
// more.
var ErrUnanswered = nats.ErrNoResponders

// absent adds to the error of a read where the server has no such stream what that means, most likely.
func absent(err error) error {
	if !untaken(err) && code(err) != codeStreamNotFound && !errors.Is(err, jetstream.ErrBucketNotFound) {
		return err
	}
	return fmt.Errorf("%w: is the station set up on this server? inspan doctor looks", err)
}

// apiAnswer is what every answer of the JetStream API begins with.
type apiAnswer struct {
	Error *jetstream.APIError `json:"error"`
}

// api makes a request of the JetStream API and decodes the answer into out, which may be nil. An error of the API is
// an *jetstream.APIError.
func (c *Conn) api(ctx context.Context, subject string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	answer, err := c.request(ctx, &nats.Msg{Subject: apiPrefix + subject, Data: body})
	if err != nil {
		return err
	}
	var head apiAnswer
	if err := json.Unmarshal(answer.Data, &head); err != nil {
		return fmt.Errorf("answer of %s: %w", subject, err)
	}
	if head.Error != nil {
		return head.Error
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer.Data, out); err != nil {
		return fmt.Errorf("answer of %s: %w", subject, err)
	}
	return nil
}

// pubAck answers a publish into a stream.
type pubAck struct {
	Stream string              `json:"stream"`
	Seq    uint64              `json:"seq"`
	Error  *jetstream.APIError `json:"error"`
}

// readAck reads an ack. What the server refused is an *jetstream.APIError.
func readAck(answer *nats.Msg) (pubAck, error) {
	var ack pubAck
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return ack, err
	}
	if ack.Error != nil {
		return ack, ack.Error
	}
	return ack, nil
}

// publish stores a message and returns its position. No one waited for an answer in vain is nil error: an error of
// the server is an *jetstream.APIError and means that nothing was stored; any other error means that it is unknown.
func (c *Conn) publish(ctx context.Context, m *nats.Msg, stream string) (uint64, error) {
	answer, err := c.request(ctx, m)
	if err != nil {
		return 0, err
	}
	ack, err := readAck(answer)
	if _, refused := errors.AsType[*jetstream.APIError](err); refused {
		return 0, err
	}
	if err != nil {
		return 0, fmt.Errorf("ack of %s: %w", m.Subject, err)
	}
	if ack.Stream != stream || ack.Seq == 0 {
		return 0, fmt.Errorf("ack of %s came from stream %q, want %q: another stream has its subjects", m.Subject, ack.Stream,
			stream)
	}
	return ack.Seq, nil
}

// code returns the code of an error of the JetStream API, 0 for any other error.
func code(err error) jetstream.ErrorCode {
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return e.ErrorCode
	}
	return 0
}

// storedMessage is a message as the leader of its stream has it.
type storedMessage struct {
	Subject string `json:"subject"`
	Seq     uint64 `json:"seq"`
	Header  []byte `json:"hdrs"`
	Data    []byte `json:"data"`
}

// lastFromLeader returns the newest message on a subject, which may have wildcards. Only the leader of the stream
// answers this request, unlike a direct get. It returns kernel.ErrNotFound where there is none.
func (c *Conn) lastFromLeader(ctx context.Context, stream, subject string) (storedMessage, error) {
	var answer struct {
		Message storedMessage `json:"message"`
	}
	err := c.api(ctx, "STREAM.MSG.GET."+stream, map[string]string{"last_by_subj": subject}, &answer)
	if code(err) == codeNoMessage {
		return storedMessage{}, kernel.ErrNotFound
	}
	if err != nil {
		return storedMessage{}, err
	}
	if answer.Message.Seq == 0 {
		return storedMessage{}, fmt.Errorf("last of %s in %s: the answer has no position", subject, stream)
	}
	return answer.Message, nil
}

// Codes of the JetStream API.
const (
	codeNoMessage       jetstream.ErrorCode = 10037
	codeStreamNotFound  jetstream.ErrorCode = 10059
	codeNotFound        jetstream.ErrorCode = 10014 // consumer
	codeWrongLast       jetstream.ErrorCode = 10071
	codeWrongLastNoSeq  jetstream.ErrorCode = 10164
	codeStoreFailed     jetstream.ErrorCode = 10077
	codeNoResources     jetstream.ErrorCode = 10023
	codeNoStorage       jetstream.ErrorCode = 10047
	codeNoMemory        jetstream.ErrorCode = 10028
	codeTooLarge        jetstream.ErrorCode = 10054
	codeStreamSealed    jetstream.ErrorCode = 10109
	codeNameInUse       jetstream.ErrorCode = 10058
	codeClusterNotReady jetstream.ErrorCode = 10008
	codeAccountBytes    jetstream.ErrorCode = 10002
	codeNoPeers         jetstream.ErrorCode = 10005
	codeMaxConsumers    jetstream.ErrorCode = 10026
	codeMaxStreams      jetstream.ErrorCode = 10027
	codeNoAccountJS     jetstream.ErrorCode = 10039
	codeReplicas        jetstream.ErrorCode = 10074
	codeDisabled        jetstream.ErrorCode = 10076
	codeBytesRequired   jetstream.ErrorCode = 10113
	codeNoTier          jetstream.ErrorCode = 10120
	codeMaxPending      jetstream.ErrorCode = 10121
	codeStreamBytes     jetstream.ErrorCode = 10122
)

// flush waits until the server has taken note of all that was published and subscribed, at most requestWait.
func (c *Conn) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	return c.nc.FlushWithContext(ctx)
}

// subscribed waits until the server knows of a subscription. It returns ErrDenied where the user may not hear the
// subject: the server says so on the side and nothing would ever come.
func (c *Conn) subscribed(ctx context.Context, subject string) error {
	if err := c.flush(ctx); err != nil {
		return err
	}
	if err := c.nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(),
		`Subscription to "`+subject+`"`) {
		return fmt.Errorf("%w: subscribe to %s", ErrDenied, subject)
	}
	return nil
}
