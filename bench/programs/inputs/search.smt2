(set-logic QF_BV)
(declare-const a (_ BitVec 16)) (declare-const b (_ BitVec 16))
(assert (= (bvmul (concat #x0000 a) (concat #x0000 b)) #x0bb1c7a5)) (assert (bvugt a #x0001)) (assert (bvugt b #x0001)) (check-sat)