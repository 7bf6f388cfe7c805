package rollout
import ("testing";"fmt";"math/rand/v2";"os";"strconv")
func (w *world) dump() string { s:=""; for _,x:=range w.sets { av,del,mk:=0,0,0; for _,m:=range w.machines { if m.set==x.name { if m.marked {mk++}; if m.deleting {del++} else if m.available {av++} } }; s+=fmt.Sprintf(" [%s spec %d machines %d del %d avail %d mark %d v%d gen %d/%d st %d %v %v]",x.name,x.spec,w.count(x.name),del,av,mk,x.version,x.observed,x.generation,x.status,x.disabled,x.stamp) }; return s+fmt.Sprintf(" want %s R%d exempt %d seen %d/%d %d/%d paused %v pl %v",w.template,w.replicas,w.exempt,w.seenSets,len(w.setLog)-1,w.seenMachines,len(w.machineLog)-1,w.paused,w.pledged)}
func TestTrace(t *testing.T) { 
	sc := scenarios()[os.Getenv("SC")]
	runs, _ := strconv.Atoi(os.Getenv("RUNS"))
			steps := 0
			for run := range runs+1 {
				for replicas := range int32(11) {
					for _, surge := range fences() {
						for _, unavailable := range fences() {
							for sets := 2; sets <= 3; sets++ {
								mk := func() *world { return newWorld(seeded{rand.New(rand.NewPCG(uint64(run), uint64(steps)))}, replicas, surge, unavailable)}
								w := mk()
								err := sc.run(w, sets, 150)
								if err != nil { 
									w = mk()
	w.onDelete, w.trustOrder = sc.onDelete, !sc.adversary
	w.ceiling, w.floor = w.bounds()
	populate(w, sets)
	for w.broken==nil && w.steps<150 { before:=w.dump(); v:=w.view(); w.step(sc.turmoil); if w.dump()!=before { fmt.Println(w.steps, w.dump()); fmt.Printf("     %+v\n", v.Sets) } }
	w.calm()
	fmt.Println("CALM", w.dump())
	fmt.Println(w.broken)
	return
								}
								steps += w.steps
							}
						}
					}
				}
			}
}
