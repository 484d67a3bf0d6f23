import sys, time, itertools
sys.path.insert(0,'src')
import torch, triton, triton.language as tl, numpy as np
import importlib.util, types
from bondic.engines import cuda_fused as f
print(torch.__version__, triton.__version__, torch.cuda.get_device_name())
def run(n, axes, width, dtype, BM, BN, tiles, warps, stages=1, cut=False, check=False):
    size=-(-n//max(BM,BN))*max(BM,BN)
    g=torch.Generator(device='cuda').manual_seed(0)
    pts=torch.randn((axes,size),device='cuda',dtype=torch.float64,generator=g).to(dtype)
    w=torch.randn((width,size),device='cuda',dtype=torch.float64,generator=g).to(dtype); w[:,n:]=0
    blocks=size//BM; parts=-(-size//(tiles*BN))
    out=torch.zeros((width,parts,blocks),device='cuda',dtype=torch.float64)
    D=tl.float64 if dtype==torch.float64 else tl.float32
    def go():
        f.symmetric[(blocks,parts)](pts,w,out,size,0,blocks,parts,tiles,AXES=axes,WIDTH=width,CUT=cut,DTYPE=D,BM=BM,BN=BN,num_warps=warps,num_stages=stages)
    go(); torch.cuda.synchronize()
    if check:
        x=pts.T.double(); K=torch.exp2(-((x[:,None,:]-x[None,:,:])**2).sum(-1))
        ref=torch.einsum('wi,ij,wj->w',w.double(),K,w.double()); mass=w.double().abs().sum(1)**2
        print('check',dtype,(out.sum((1,2))-ref).tolist(),ref.tolist(),((out.sum((1,2))-ref).abs()/mass).tolist())
    t=time.perf_counter(); go(); torch.cuda.synchronize(); t=time.perf_counter()-t
    return n*(n+1)/2/t
for dt in (torch.float64,torch.float32):
    run(3000,4,2,dt,64,32,16,4,check=True); run(3000,3,1,dt,64,64,16,4,check=True,cut=True)
n=400_000
for dt in (torch.float64,torch.float32):
    res=[]
    for BM,BN,tiles,warps in itertools.product((32,64,128),(16,32,64,128),(256,),(2,4,8)):
        if BN>BM or not (8<=BM*BN/(warps*32)<=64): continue
        try: res.append((run(n,4,1,dt,BM,BN,tiles,warps),BM,BN,tiles,warps))
        except Exception as e: print('fail',BM,BN,warps,repr(e)[:80])
    res.sort(reverse=True)
    for r in res[:8]: print(dt, '%.3e'%r[0], r[1:])
    b=res[0]
    for stages in (1,2,3): print('stages',stages,'%.3e'%run(n,4,1,dt,b[1],b[2],b[3],b[4],stages))
    print('width2 %.3e'%run(n,4,2,dt,*b[1:]), 'cut %.3e'%run(n,4,1,dt,*b[1:],cut=True))
    print('2M %.3e'%run(2_000_000,4,1,dt,*b[1:]))
