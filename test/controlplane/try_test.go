package controlplane
import ("testing";"time";"os/exec";"fmt")
func TestTry(t *testing.T){
 for range 3 {
 s:=time.Now()
 c,err:=Start(t.Context(),Options{Name:"try",ControllerManager:true})
 if err!=nil {t.Fatal(err)}
 fmt.Println("start",time.Since(s))
 time.Sleep(5*time.Second)
 for _,p:=range c.Processes(){ o,_:=exec.Command("ps","-o","pid,rss,time,comm","-p",fmt.Sprint(p.PID)).Output(); fmt.Print(string(o)) ; o,_=exec.Command("ss","-lntp").Output(); _=o}
 o,_:=exec.Command("sh","-c","wc -l "+c.dir+"/*.log; grep -h '^[EWF]' "+c.dir+"/*.log | head -40").Output(); fmt.Print(string(o))
 s=time.Now(); fmt.Println(c.Stop(), time.Since(s))
 }
}
