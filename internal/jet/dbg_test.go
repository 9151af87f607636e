package jet_test
import ("testing";"io";"errors";"time";"github.com/inspan/inspan/internal/jet";"github.com/inspan/inspan/internal/jet/jettest";"github.com/nats-io/nats.go")
func TestDbg(t *testing.T){
	s := jettest.Server(t, func(cfg *jet.ServerConfig) { cfg.Users = []jet.User{{Name: "admin", Password: "a"}} })
	for range 3 {
	b:=time.Now()
	_, err := nats.Connect("", nats.InProcessServer(s), nats.UserInfo("admin","b"))
	t.Logf("%T %v %v %v", err, err, errors.Is(err, io.ErrClosedPipe), time.Since(b))
	}
}
