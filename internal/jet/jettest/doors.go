package jettest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/topology"
)

// answerWait is how long the server may take to answer what no port asks.
const answerWait = time.Minute

// StepDown has the leader of a stream give up, for the server named "n1", "n2" ... if to is one of them. It is asked
// through server via and fails where there is no leader at the moment.
func (g *Group) StepDown(via int, stream, to string) error {
	var body any
	if to != "" {
		body = map[string]any{"placement": map[string]string{"preferred": to}}
	}
	return ask(g.servers[via], "STREAM.LEADER.STEPDOWN."+stream, body)
}

// StepDownConsumer does the same to a consumer.
func (g *Group) StepDownConsumer(via int, stream, consumer string) error {
	return ask(g.servers[via], "CONSUMER.LEADER.STEPDOWN."+stream+"."+consumer, nil)
}

// OpenLog makes a log that messages can be deleted from, as that of no station can. The station has nothing else.
func OpenLog(t testing.TB, s *natsserver.Server, c *jet.Conn, station string) *jet.Station {
	t.Helper()
	row := topology.Streams(station, topology.Limits{})[0]
	err := ask(s, "STREAM.CREATE."+row.Name, map[string]any{"name": row.Name, "subjects": row.Subjects, "storage": "file",
		"num_replicas": 1,
		"retention":    "limits", "discard": "new", "allow_direct": true})
	if err != nil {
		t.Fatalf("make an open log: %v", err)
	}
	st, err := c.Station(station)
	if err != nil {
		t.Fatalf("station %s: %v", station, err)
	}
	return st
}

// Lose deletes an event from an open log.
func Lose(t testing.TB, s *natsserver.Server, station string, seq uint64) {
	t.Helper()
	if err := ask(s, "STREAM.MSG.DELETE."+topology.Log(station), map[string]uint64{"seq": seq}); err != nil {
		t.Fatalf("delete event %d: %v", seq, err)
	}
}

// ask makes a request of the JetStream API past all ports.
func ask(s *natsserver.Server, subject string, body any) error {
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer nc.Close()
	var data []byte
	if body != nil {
		if data, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	m, err := nc.Request("$JS.API."+subject, data, answerWait)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	var answer struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("answer of %s: %w", subject, err)
	}
	if answer.Error != nil {
		return fmt.Errorf("%s: %s", subject, answer.Error.Description)
	}
	return nil
}
