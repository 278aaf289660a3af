-------------------------------- MODULE Turns --------------------------------
(***************************************************************************)
(* Do channels take turns? The order of the line, for dequeues of one      *)
(* message, each in one step (Line has the steps of one dequeue).          *)
(*                                                                         *)
(* Each guard of the SQL is a constant: TRUE is what the SQL does.         *)
(*                                                                         *)
(* A lane keeps its place until its turn is over, then it goes to the tail *)
(* and stays there, also when it is empty. One that comes back after the   *)
(* head of the line has passed its place is fresh: it is served before the *)
(* others, for one turn.                                                   *)
(*                                                                         *)
(* Abstracted: places are numbered anew after each step, limits and rates, *)
(* calls for several messages, lanes that others hold.                     *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS Channels, Most,  \* messages that a channel has, at most
    Weight                 \* messages of one turn

CONSTANTS
    LineDecides,  \* FALSE: the first message of all is served, by its priority
    GoesToTail,   \* FALSE: a lane keeps its place after its turn
    FreshIsPassed,\* FALSE: every lane that comes back is fresh
    FreshEnds     \* FALSE: a fresh lane stays fresh after its turn

VARIABLES
    ready,   \* of each channel: how many messages
    loud,    \* of each channel: whether its messages have a priority
    place,   \* of each channel: the place of its lane
    fresh,   \* of each channel
    served,  \* of each channel: messages of the turn that has begun
    passed   \* ghost: passed[c][d], messages of d that were served while c waited

vars == <<ready, loud, place, fresh, served, passed>>

Number == Cardinality(Channels)
InLine == {c \in Channels : ready[c] > 0}
None == [d \in Channels |-> 0]

\* Any line, as limits and pauses may have left it.
Init ==
    /\ ready \in [Channels -> 0..Most]
    /\ loud \in [Channels -> BOOLEAN]
    /\ place \in {p \in [Channels -> 1..Number] : \A c, d \in Channels : c # d => p[c] # p[d]}
    /\ fresh \in [Channels -> BOOLEAN]
    /\ served = [c \in Channels |-> 0]
    /\ passed = [c \in Channels |-> None]

\* The head is the first lane of those that are not fresh. Without one, all places have been passed.
HasPassed(c) == \A d \in InLine : fresh[d] \/ place[d] > place[c]

Add(c) ==
    /\ ready[c] > 0 /\ ready[c] < Most
    /\ ready' = [ready EXCEPT ![c] = @ + 1]
    /\ UNCHANGED <<loud, place, fresh, served, passed>>

ComeBack(c) ==
    /\ ready[c] = 0
    /\ ready' = [ready EXCEPT ![c] = 1]
    /\ fresh' = [fresh EXCEPT ![c] = ~FreshIsPassed \/ HasPassed(c)]
    /\ UNCHANGED <<loud, place, served, passed>>

Before(c, d) ==
    CASE ~LineDecides /\ loud[c] # loud[d] -> loud[c]
      [] fresh[c] # fresh[d] -> fresh[c]
      [] OTHER -> place[c] < place[d]

First(c) == c \in InLine /\ \A d \in InLine \ {c} : Before(c, d)

Tail(c) == [d \in Channels |->
    CASE d = c -> Number
      [] place[d] > place[c] -> place[d] - 1
      [] OTHER -> place[d]]

Passes(c) == [d \in Channels |->
    IF d = c \/ ready[d] = 0 THEN None ELSE [passed[d] EXCEPT ![c] = IF @ > 2 * Weight THEN @ ELSE @ + 1]]

Ends(c) == ready[c] = 1 \/ served[c] + 1 >= Weight

Serve(c) ==
    /\ First(c)
    /\ ready' = [ready EXCEPT ![c] = @ - 1]
    /\ passed' = Passes(c)
    /\ UNCHANGED loud

GoOn(c) ==
    /\ Serve(c) /\ ~Ends(c)
    /\ served' = [served EXCEPT ![c] = @ + 1]
    /\ UNCHANGED <<place, fresh>>

EndTurn(c) ==
    /\ Serve(c) /\ Ends(c)
    /\ place' = IF GoesToTail THEN Tail(c) ELSE place
    /\ fresh' = IF FreshEnds THEN [fresh EXCEPT ![c] = FALSE] ELSE fresh
    /\ served' = [served EXCEPT ![c] = 0]

Next == \E c \in Channels : Add(c) \/ ComeBack(c) \/ GoOn(c) \/ EndTurn(c)

Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Channels)

-----------------------------------------------------------------------------
(* What must hold. *)

\* C6: who waits lets each other channel pass for the turn that had begun and one more, whatever its messages say.
TwoTurns == \A c, d \in Channels : passed[c][d] <= 2 * Weight

\* C8: who comes back after its place has passed is served behind others of this kind only.
FreshFirst == \A c \in InLine : \A d \in InLine : fresh[c] /\ First(d) => fresh[d]
=============================================================================
